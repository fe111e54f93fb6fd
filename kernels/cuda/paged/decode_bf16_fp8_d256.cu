#include "kernels/cuda/paged/decode.h"
#include "kernels/cuda/paged/launch.h"

namespace tessera::cuda::paged {

const PagedKernelEntry kDecodeBf16Fp8D256Narrow = DecodeEntryOf<DecodeTraits<__nv_bfloat16, Float8, 256, 1>>();

}  // namespace tessera::cuda::paged
