// The GPU's attention over pages.
#ifndef TESSERA_KERNELS_CUDA_PAGED_PAGED_BACKEND_H_
#define TESSERA_KERNELS_CUDA_PAGED_PAGED_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/paged_attention.h"

namespace tessera::cuda {

class GpuPagedBackend : public PagedAttentionBackend {
 public:
  // Bytes of scratch memory: the most that calls have had in use at one time, beside the callers' tensors and pages.
  virtual absl::StatusOr<int64_t> PeakScratchBytes() const = 0;
  // Bytes that the device has given for it, in use or kept for later calls.
  virtual absl::StatusOr<int64_t> ReservedScratchBytes() const = 0;
};

// On CUDA device `device`. Everything that a call names is in its memory, page tables and scales too. Scratch memory
// comes from a pool of its own in stream order: a few hundred bytes a sequence; (head_dim + 2) floats for each query
// head, row and split of those sequences that have more than one split; and a copy of K and V of the longest sequence
// of many rows (RowPath::kForward) whose pages the forward kernels do not read. UNAVAILABLE without a device or a
// fitting driver.
absl::StatusOr<std::unique_ptr<GpuPagedBackend>> CreatePagedBackend(int device);

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_PAGED_PAGED_BACKEND_H_
