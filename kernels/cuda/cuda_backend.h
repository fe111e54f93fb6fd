// The GPU's attention backend: the sm_90a kernels where they run, the portable ones everywhere else.
#ifndef TESSERA_KERNELS_CUDA_CUDA_BACKEND_H_
#define TESSERA_KERNELS_CUDA_CUDA_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/gpu_backend.h"
#include "kernels/cuda/kernel_choice.h"
#include "kernels/paged_attention.h"

namespace tessera::cuda {

// Over contiguous tensors, and over pages that it can read.
class ForwardBackend : public GpuBackend {
 public:
  // Whether ForwardPages takes this sequence: looks at it alone. REQUIRES: a valid one.
  virtual bool ReadsPages(const PagedParams& params, const PagedSequence& sequence) const = 0;

  // Forward with K and V in pages, of which new rows are there already: nothing is appended. Bits are those of Forward
  // over the same rows. REQUIRES: sequences that ReadsPages accepts.
  virtual absl::Status ForwardPages(const PagedParams& params, absl::Span<const PagedSequence> sequences,
                                    StreamHandle stream, ForwardStats* stats) = 0;

  // Keys of a tile of the kernel that computes this sequence: without the first of them, as many or a multiple, results
  // are the same bit for bit where no row sees those.
  virtual int64_t TileKeys(const AttentionParams& params, const SequenceView& sequence) const = 0;
};

// A backend on CUDA device `device`, with the family that suits it. Scratch memory, a few hundred bytes a sequence,
// comes from a pool of its own in stream order. UNAVAILABLE without a device or a fitting driver.
absl::StatusOr<std::unique_ptr<ForwardBackend>> CreateCudaBackend(int device);

// The same with a family of choice. INVALID_ARGUMENT where the device lacks its instructions.
absl::StatusOr<std::unique_ptr<ForwardBackend>> CreateCudaBackend(int device, KernelFamily family);

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_CUDA_BACKEND_H_
