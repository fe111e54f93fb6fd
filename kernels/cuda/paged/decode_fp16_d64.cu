#include "kernels/cuda/paged/decode.h"
#include "kernels/cuda/paged/launch.h"

namespace tessera::cuda::paged {

const PagedKernelEntry kDecodeFp16D64Narrow = DecodeEntryOf<DecodeTraits<__half, __half, 64, 1>>();
const PagedKernelEntry kDecodeFp16D64Wide = DecodeEntryOf<DecodeTraits<__half, __half, 64, 2>>();

}  // namespace tessera::cuda::paged
