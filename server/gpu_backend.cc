#include "server/gpu_backend.h"

#include "kernels/cuda/cuda_backend.h"

namespace tessera {

absl::StatusOr<std::unique_ptr<cuda::GpuBackend>> MakeGpuBackend(int number) { return cuda::CreateCudaBackend(number); }

absl::StatusOr<std::unique_ptr<cuda::GpuPagedBackend>> MakeGpuPagedBackend(int number) {
  return cuda::CreatePagedBackend(number);
}

}  // namespace tessera
