// Pinned host memory as a region of a staging pool: one for all GPUs of a server.
#ifndef TESSERA_SERVER_DEVICE_CUDA_PINNED_REGION_H_
#define TESSERA_SERVER_DEVICE_CUDA_PINNED_REGION_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "server/device/cuda/cuda_calls.h"
#include "server/memory/staging_pool.h"

namespace tessera {

class PinnedRegion final : public StagingPool::Region {
 public:
  // Takes all of it now. `calls` outlives the region. RESOURCE_EXHAUSTED where the system does not pin so much.
  static absl::StatusOr<std::unique_ptr<PinnedRegion>> Allocate(size_t bytes, CudaCalls* calls);
  PinnedRegion(const PinnedRegion&) = delete;
  PinnedRegion& operator=(const PinnedRegion&) = delete;
  ~PinnedRegion() override;

  std::byte* data() const override { return data_; }
  size_t size() const override { return size_; }

 private:
  PinnedRegion(std::byte* data, size_t size, CudaCalls* calls) : data_(data), size_(size), calls_(calls) {}

  std::byte* const data_;
  const size_t size_;
  CudaCalls* const calls_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_CUDA_PINNED_REGION_H_
