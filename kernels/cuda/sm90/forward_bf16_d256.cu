#include "kernels/cuda/sm90/forward.h"
#include "kernels/cuda/sm90/launch.h"

namespace tessera::cuda::sm90 {

const ForwardKernelEntry kForwardBf16D256 = EntryOf<ForwardTraits<__nv_bfloat16, 256, 128, 80, 2, 1>>();

}  // namespace tessera::cuda::sm90
