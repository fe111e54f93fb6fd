// An attention backend on a GPU, and what it takes of the device's memory.
#ifndef TESSERA_KERNELS_CUDA_GPU_BACKEND_H_
#define TESSERA_KERNELS_CUDA_GPU_BACKEND_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/attention.h"

namespace tessera::cuda {

class GpuBackend : public AttentionBackend {
 public:
  // Bytes of scratch memory: the most that calls have had in use at one time, beside the callers' tensors.
  virtual absl::StatusOr<int64_t> PeakScratchBytes() const = 0;
  // Bytes that the device has given for it, in use or kept for later calls.
  virtual absl::StatusOr<int64_t> ReservedScratchBytes() const = 0;
};

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_GPU_BACKEND_H_
