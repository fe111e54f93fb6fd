#include "kernels/cuda/paged/decode.h"
#include "kernels/cuda/paged/launch.h"

namespace tessera::cuda::paged {

const PagedKernelEntry kDecodeBf16D128Wide = DecodeEntryOf<DecodeTraits<__nv_bfloat16, __nv_bfloat16, 128, 2>>();

}  // namespace tessera::cuda::paged
