// Standard attention on the GPU as a backend.
#ifndef TESSERA_KERNELS_CUDA_STANDARD_STANDARD_BACKEND_H_
#define TESSERA_KERNELS_CUDA_STANDARD_STANDARD_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/attention.h"
#include "kernels/cuda/gpu_backend.h"

namespace tessera::cuda {

// Device memory for scores that a call takes: the largest of its sequences' sets of heads, as many heads at a time as
// `budget_bytes` holds, at least one. REQUIRES: validated params and sequences.
int64_t StandardScratchBytes(const AttentionParams& params, absl::Span<const SequenceView> sequences,
                             int64_t budget_bytes);

// A backend named "standard" on CUDA device `device`. Its calls take StandardScratchBytes(..., budget_bytes) from a
// pool in stream order: RESOURCE_EXHAUSTED where the device has not as much. Scores and probabilities are stored in the
// call's dtype: fp16 scores beyond 65504 are infinite, as in any standard attention.
absl::StatusOr<std::unique_ptr<GpuBackend>> CreateStandardBackend(int device, int64_t budget_bytes);

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_STANDARD_STANDARD_BACKEND_H_
