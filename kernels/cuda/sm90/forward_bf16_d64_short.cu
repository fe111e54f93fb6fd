#include "kernels/cuda/sm90/forward.h"
#include "kernels/cuda/sm90/launch.h"

namespace tessera::cuda::sm90 {

const ForwardKernelEntry kForwardBf16D64Short = EntryOf<ForwardTraits<__nv_bfloat16, 64, 128, 128, 2, 2>>();

}  // namespace tessera::cuda::sm90
