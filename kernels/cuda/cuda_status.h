// From the runtime's errors to absl::Status.
#ifndef TESSERA_KERNELS_CUDA_CUDA_STATUS_H_
#define TESSERA_KERNELS_CUDA_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tessera::cuda {

// OK; RESOURCE_EXHAUSTED for a lack of memory, which leaves the device usable; UNAVAILABLE where there is no device or
// driver; INTERNAL for all else. `what` names the step.
absl::Status ToStatus(cudaError_t error, absl::string_view what);

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_CUDA_STATUS_H_
