// Pages of resident sequences: a part of a GPU's arena, taken for good.
#ifndef TESSERA_SERVER_DEVICE_CUDA_PAGE_REGION_H_
#define TESSERA_SERVER_DEVICE_CUDA_PAGE_REGION_H_

#include <cstddef>
#include <utility>

#include "server/device/cuda/device_memory.h"
#include "server/memory/staging_pool.h"

namespace tessera {

class PageRegion final : public StagingPool::Region {
 public:
  PageRegion(DeviceMemory::Block block, size_t bytes) : block_(std::move(block)), bytes_(bytes) {}

  std::byte* data() const override { return block_.data(); }
  size_t size() const override { return bytes_; }

 private:
  const DeviceMemory::Block block_;
  const size_t bytes_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_CUDA_PAGE_REGION_H_
