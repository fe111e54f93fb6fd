#include "kernels/cuda/sm90/forward.h"
#include "kernels/cuda/sm90/launch.h"

namespace tessera::cuda::sm90 {

const ForwardKernelEntry kForwardFp16D96 = EntryOf<ForwardTraits<__half, 96, 128, 128, 2, 2>>();

}  // namespace tessera::cuda::sm90
