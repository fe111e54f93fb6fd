#include "kernels/cuda/paged/decode.h"
#include "kernels/cuda/paged/row_launch.h"

namespace tessera::cuda::paged {

const PagedKernels kRowsFp32 = KernelsOf<float, float>();
const PagedKernels kRowsFp32Fp8 = KernelsOf<float, Float8>();

}  // namespace tessera::cuda::paged
