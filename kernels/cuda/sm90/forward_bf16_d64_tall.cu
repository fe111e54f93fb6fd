#include "kernels/cuda/sm90/forward.h"
#include "kernels/cuda/sm90/launch.h"

namespace tessera::cuda::sm90 {

const ForwardKernelEntry kForwardBf16D64Tall = EntryOf<ForwardTraits<__nv_bfloat16, 64, 192, 128, 2, 2>>();

}  // namespace tessera::cuda::sm90
