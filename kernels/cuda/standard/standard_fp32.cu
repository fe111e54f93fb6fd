#include "kernels/cuda/standard/launch.h"
#include "kernels/cuda/standard/standard.h"

namespace tessera::cuda::standard {

cudaError_t StandardForwardFp32(const StandardLaunch& launch, cudaStream_t stream) {
  return LaunchStandard<float>(launch, stream);
}

}  // namespace tessera::cuda::standard
