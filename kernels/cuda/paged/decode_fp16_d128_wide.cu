#include "kernels/cuda/paged/decode.h"
#include "kernels/cuda/paged/launch.h"

namespace tessera::cuda::paged {

const PagedKernelEntry kDecodeFp16D128Wide = DecodeEntryOf<DecodeTraits<__half, __half, 128, 2>>();

}  // namespace tessera::cuda::paged
