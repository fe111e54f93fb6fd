#include "kernels/cuda/paged/decode.h"
#include "kernels/cuda/paged/launch.h"

namespace tessera::cuda::paged {

const PagedKernelEntry kDecodeFp16Fp8D128Narrow = DecodeEntryOf<DecodeTraits<__half, Float8, 128, 1>>();

}  // namespace tessera::cuda::paged
