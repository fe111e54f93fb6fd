#include "kernels/cuda/sm80/forward.h"
#include "kernels/cuda/sm80/forward_kernel.h"
#include "kernels/cuda/sm80/launch.h"

namespace tessera::cuda::sm80 {

using Traits = ForwardTraits<__half, 192, 4, 16, 64, 2, true, 2>;
const ForwardKernelEntry kForwardFp16D192 = EntryOf<ForwardKernel<Traits>, Traits>();

}  // namespace tessera::cuda::sm80
