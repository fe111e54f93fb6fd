#include "kernels/cuda/paged/decode.h"
#include "kernels/cuda/paged/launch.h"

namespace tessera::cuda::paged {

const PagedKernelEntry kDecodeBf16D64Narrow = DecodeEntryOf<DecodeTraits<__nv_bfloat16, __nv_bfloat16, 64, 1>>();
const PagedKernelEntry kDecodeBf16D64Wide = DecodeEntryOf<DecodeTraits<__nv_bfloat16, __nv_bfloat16, 64, 2>>();

}  // namespace tessera::cuda::paged
