#include "kernels/cuda/paged/decode.h"
#include "kernels/cuda/paged/row_launch.h"

namespace tessera::cuda::paged {

const PagedKernels kRowsBf16 = KernelsOf<__nv_bfloat16, __nv_bfloat16>();
const PagedKernels kRowsBf16Fp8 = KernelsOf<__nv_bfloat16, Float8>();

}  // namespace tessera::cuda::paged
