#include "kernels/cuda/paged/decode.h"
#include "kernels/cuda/paged/launch.h"

namespace tessera::cuda::paged {

const PagedKernelEntry kDecodeFp16D256Narrow = DecodeEntryOf<DecodeTraits<__half, __half, 256, 1>>();

}  // namespace tessera::cuda::paged
