#include "kernels/cuda/sm80/forward.h"
#include "kernels/cuda/sm80/fp32_kernel.h"
#include "kernels/cuda/sm80/launch.h"

namespace tessera::cuda::sm80 {

using Traits = Fp32Traits<192, 4, 2, 2>;
const ForwardKernelEntry kForwardFp32D192 = EntryOf<Fp32ForwardKernel<Traits>, Traits>();

}  // namespace tessera::cuda::sm80
