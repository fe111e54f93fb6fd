// Device memory for the length of one launch, in stream order.
#ifndef TESSERA_KERNELS_CUDA_SCRATCH_POOL_H_
#define TESSERA_KERNELS_CUDA_SCRATCH_POOL_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tessera::cuda {

// Owns a memory pool that keeps what it has taken, so that steady traffic allocates nothing. Thread-safe.
class ScratchPool {
 public:
  static absl::StatusOr<ScratchPool> Create(int device);

  ScratchPool(ScratchPool&& other) noexcept;
  ScratchPool& operator=(ScratchPool&&) = delete;
  ~ScratchPool();

  // A block that later work on `stream` may use, aligned to 256 bytes. RESOURCE_EXHAUSTED where there is no memory.
  absl::StatusOr<void*> Allocate(size_t bytes, cudaStream_t stream) const;

  // The most bytes that were in use at one time.
  absl::StatusOr<int64_t> PeakBytes() const;
  // What the pool has taken of the device.
  absl::StatusOr<int64_t> ReservedBytes() const;

  // Returns it once the work enqueued so far has finished.
  absl::Status Free(void* block, cudaStream_t stream) const;

 private:
  explicit ScratchPool(cudaMemPool_t pool) : pool_(pool) {}
  absl::StatusOr<int64_t> Ask(cudaMemPoolAttr attribute) const;

  cudaMemPool_t pool_;
};

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_SCRATCH_POOL_H_
