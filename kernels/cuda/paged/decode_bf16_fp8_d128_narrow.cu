#include "kernels/cuda/paged/decode.h"
#include "kernels/cuda/paged/launch.h"

namespace tessera::cuda::paged {

const PagedKernelEntry kDecodeBf16Fp8D128Narrow = DecodeEntryOf<DecodeTraits<__nv_bfloat16, Float8, 128, 1>>();

}  // namespace tessera::cuda::paged
