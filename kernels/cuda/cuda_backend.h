// The GPU's attention backend: the sm_90a kernels where they run, the portable ones everywhere else.
#ifndef TESSERA_KERNELS_CUDA_CUDA_BACKEND_H_
#define TESSERA_KERNELS_CUDA_CUDA_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/gpu_backend.h"
#include "kernels/cuda/kernel_choice.h"

namespace tessera::cuda {

// A backend on CUDA device `device`, with the family that suits it. Scratch memory, a few hundred bytes a sequence,
// comes from a pool of its own in stream order. UNAVAILABLE without a device or a fitting driver.
absl::StatusOr<std::unique_ptr<GpuBackend>> CreateCudaBackend(int device);

// The same with a family of choice. INVALID_ARGUMENT where the device lacks its instructions.
absl::StatusOr<std::unique_ptr<GpuBackend>> CreateCudaBackend(int device, KernelFamily family);

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_CUDA_BACKEND_H_
