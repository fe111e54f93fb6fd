#include "kernels/cuda/sm80/forward.h"
#include "kernels/cuda/sm80/forward_kernel.h"
#include "kernels/cuda/sm80/launch.h"

namespace tessera::cuda::sm80 {

using Traits = ForwardTraits<__nv_bfloat16, 256, 4, 32>;
const ForwardKernelEntry kForwardBf16D256 = EntryOf<Traits, ForwardKernel<Traits>>();

}  // namespace tessera::cuda::sm80
