#include "kernels/cuda/sm80/forward.h"
#include "kernels/cuda/sm80/fp32_kernel.h"
#include "kernels/cuda/sm80/launch.h"

namespace tessera::cuda::sm80 {

using Traits = Fp32Traits<256, 2, 2, 2>;
const ForwardKernelEntry kForwardFp32D256 = EntryOf<Fp32ForwardKernel<Traits>, Traits>();

}  // namespace tessera::cuda::sm80
