// The kernels that a server runs on a GPU. A file of its own, so that a server built for tests can run others.
#ifndef TESSERA_SERVER_GPU_BACKEND_H_
#define TESSERA_SERVER_GPU_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/gpu_backend.h"
#include "kernels/cuda/paged/paged_backend.h"

namespace tessera {

// On CUDA device `number`. UNAVAILABLE where there is no such device or its driver is too old.
absl::StatusOr<std::unique_ptr<cuda::GpuBackend>> MakeGpuBackend(int number);
// The same for pages.
absl::StatusOr<std::unique_ptr<cuda::GpuPagedBackend>> MakeGpuPagedBackend(int number);

}  // namespace tessera

#endif  // TESSERA_SERVER_GPU_BACKEND_H_
