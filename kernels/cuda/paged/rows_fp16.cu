#include "kernels/cuda/paged/decode.h"
#include "kernels/cuda/paged/row_launch.h"

namespace tessera::cuda::paged {

const PagedKernels kRowsFp16 = KernelsOf<__half, __half>();
const PagedKernels kRowsFp16Fp8 = KernelsOf<__half, Float8>();

}  // namespace tessera::cuda::paged
