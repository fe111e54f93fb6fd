#include "kernels/cuda/paged/decode.h"
#include "kernels/cuda/paged/launch.h"

namespace tessera::cuda::paged {

const PagedKernelEntry kDecodeBf16D128Narrow = DecodeEntryOf<DecodeTraits<__nv_bfloat16, __nv_bfloat16, 128, 1>>();

}  // namespace tessera::cuda::paged
