#include "kernels/cuda/sm80/forward.h"
#include "kernels/cuda/sm80/forward_kernel.h"
#include "kernels/cuda/sm80/launch.h"

namespace tessera::cuda::sm80 {

using Traits = ForwardTraits<__nv_bfloat16, 256, 4, 16, 48, 2, false, 2>;
const ForwardKernelEntry kForwardBf16D256 = EntryOf<ForwardKernel<Traits>, Traits>();

}  // namespace tessera::cuda::sm80
