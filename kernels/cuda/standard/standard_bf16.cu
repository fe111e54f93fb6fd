#include <cuda_bf16.h>

#include "kernels/cuda/standard/launch.h"
#include "kernels/cuda/standard/standard.h"

namespace tessera::cuda::standard {

cudaError_t StandardForwardBf16(const StandardLaunch& launch, cudaStream_t stream) {
  return LaunchStandard<__nv_bfloat16>(launch, stream);
}

}  // namespace tessera::cuda::standard
