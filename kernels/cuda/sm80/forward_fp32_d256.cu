#include "kernels/cuda/sm80/forward.h"
#include "kernels/cuda/sm80/forward_fp32_kernel.h"
#include "kernels/cuda/sm80/launch.h"

namespace tessera::cuda::sm80 {

using Traits = ForwardFp32Traits<256>;
const ForwardKernelEntry kForwardFp32D256 = EntryOf<Traits, ForwardFp32Kernel<Traits>>();

}  // namespace tessera::cuda::sm80
