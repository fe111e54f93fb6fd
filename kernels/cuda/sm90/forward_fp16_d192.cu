#include "kernels/cuda/sm90/forward.h"
#include "kernels/cuda/sm90/launch.h"

namespace tessera::cuda::sm90 {

const ForwardKernelEntry kForwardFp16D192 = EntryOf<ForwardTraits<__half, 192, 128, 112, 2, 1>>();

}  // namespace tessera::cuda::sm90
