#include <cuda_fp16.h>

#include "kernels/cuda/standard/launch.h"
#include "kernels/cuda/standard/standard.h"

namespace tessera::cuda::standard {

cudaError_t StandardForwardFp16(const StandardLaunch& launch, cudaStream_t stream) {
  return LaunchStandard<__half>(launch, stream);
}

}  // namespace tessera::cuda::standard
