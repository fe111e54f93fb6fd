#include "kernels/cuda/sm90/forward.h"
#include "kernels/cuda/sm90/launch.h"

namespace tessera::cuda::sm90 {

const ForwardKernelEntry kForwardBf16D128Wide = EntryOf<ForwardTraits<__nv_bfloat16, 128, 128, 176, 2, 1>>();

}  // namespace tessera::cuda::sm90
