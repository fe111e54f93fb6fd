#include "kernels/cuda/sm90/forward.h"
#include "kernels/cuda/sm90/launch.h"

namespace tessera::cuda::sm90 {

const ForwardKernelEntry kForwardFp16D64Tall = EntryOf<ForwardTraits<__half, 64, 192, 128, 2, 2>>();

}  // namespace tessera::cuda::sm90
