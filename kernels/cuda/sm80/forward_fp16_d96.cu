#include "kernels/cuda/sm80/forward.h"
#include "kernels/cuda/sm80/forward_kernel.h"
#include "kernels/cuda/sm80/launch.h"

namespace tessera::cuda::sm80 {

using Traits = ForwardTraits<__half, 96, 4, 32, 64, 2, false, 2>;
const ForwardKernelEntry kForwardFp16D96 = EntryOf<ForwardKernel<Traits>, Traits>();

}  // namespace tessera::cuda::sm80
