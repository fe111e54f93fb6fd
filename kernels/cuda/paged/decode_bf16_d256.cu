#include "kernels/cuda/paged/decode.h"
#include "kernels/cuda/paged/launch.h"

namespace tessera::cuda::paged {

const PagedKernelEntry kDecodeBf16D256Narrow = DecodeEntryOf<DecodeTraits<__nv_bfloat16, __nv_bfloat16, 256, 1>>();

}  // namespace tessera::cuda::paged
