#include "kernels/cuda/scratch_pool.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/cuda/cuda_status.h"

namespace tessera::cuda {

absl::StatusOr<ScratchPool> ScratchPool::Create(int device) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  absl::Status status = ToStatus(cudaMemPoolCreate(&pool, &properties), "creating the scratch pool");
  if (!status.ok()) return status;
  ScratchPool scratch(pool);
  uint64_t keep = std::numeric_limits<uint64_t>::max();
  status =
      ToStatus(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), "setting up the scratch pool");
  if (!status.ok()) return status;
  return scratch;
}

ScratchPool::ScratchPool(ScratchPool&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)) {}

ScratchPool::~ScratchPool() {
  if (pool_ != nullptr) cudaMemPoolDestroy(pool_);
}

absl::StatusOr<void*> ScratchPool::Allocate(size_t bytes, cudaStream_t stream) const {
  void* block = nullptr;
  const absl::Status status =
      ToStatus(cudaMallocFromPoolAsync(&block, bytes, pool_, stream), "allocating scratch memory");
  if (!status.ok()) return status;
  return block;
}

absl::StatusOr<int64_t> ScratchPool::PeakBytes() const { return Ask(cudaMemPoolAttrUsedMemHigh); }

absl::StatusOr<int64_t> ScratchPool::ReservedBytes() const { return Ask(cudaMemPoolAttrReservedMemCurrent); }

absl::StatusOr<int64_t> ScratchPool::Ask(cudaMemPoolAttr attribute) const {
  uint64_t bytes = 0;
  const absl::Status status = ToStatus(cudaMemPoolGetAttribute(pool_, attribute, &bytes), "asking the scratch pool");
  if (!status.ok()) return status;
  return static_cast<int64_t>(bytes);
}

absl::Status ScratchPool::Free(void* block, cudaStream_t stream) const {
  return ToStatus(cudaFreeAsync(block, stream), "freeing scratch memory");
}

}  // namespace tessera::cuda
