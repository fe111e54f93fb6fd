// A GPU as a device: tensors are received into pinned memory, travel to one arena on the GPU, and back.
#ifndef TESSERA_SERVER_DEVICE_CUDA_CUDA_DEVICE_H_
#define TESSERA_SERVER_DEVICE_CUDA_CUDA_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/attention.h"
#include "kernels/cuda/gpu_backend.h"
#include "kernels/cuda/paged/paged_backend.h"
#include "server/device/cuda/cuda_calls.h"
#include "server/device/cuda/cuda_region_mapper.h"
#include "server/device/cuda/cuda_slot.h"
#include "server/device/cuda/device_memory.h"
#include "server/device/device.h"

namespace tessera {

struct CudaDeviceOptions {
  int index = 0;   // DeviceInfo::index
  int device = 0;  // CUDA's number
  int slots = 4;
  double memory_fraction = 0.9;  // of the memory that is free at start, for the arena; in (0, 1)
  // How often a thread looks whether its steps on resident sequences are done before it sleeps until they are. To be
  // woken takes 25 us and more, a look less than one: so short steps are not slept through, and long ones burn no core.
  int looks = 300;
  // Pinned memory of each slot, beside staging memory, for the page tables and scales of its steps, where the device
  // keeps pages: enough for 256 sequences of 1024 pages. A batch that needs more takes more.
  size_t table_bytes = size_t{1} << 20;
};

class CudaDevice final : public Device {
 public:
  // Takes all memory that the device will ever use for tensors and pages. The calls outlive the device. `staging` is
  // pinned memory (PinnedRegion), which several devices may share. `paged` computes over pages; null: the device keeps
  // none. UNAVAILABLE without such a device, RESOURCE_EXHAUSTED where its memory is not to be had. REQUIRES: slots >=
  // 1; the backends are of the same CUDA device.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(const CudaDeviceOptions& options,
                                                          std::unique_ptr<cuda::GpuBackend> backend,
                                                          std::shared_ptr<StagingPool> staging, CudaCalls* calls,
                                                          std::unique_ptr<cuda::GpuPagedBackend> paged = nullptr);

  DeviceInfo info() const override { return info_; }
  StagingPool& staging() override { return *staging_; }
  int64_t memory_in_use() const override { return static_cast<int64_t>(memory_->in_use()); }
  // 0 once the device is lost and does not say.
  int64_t launch_memory() const override;
  int64_t pinned_launch_memory() const override;
  RegionMapper* region_mapper() override { return &region_mapper_; }
  // An error is sticky where the device does not finish what it was given. Where the arena is full: RESOURCE_EXHAUSTED,
  // or INVALID_ARGUMENT where it never could hold the one item that there is.
  BatchOutcome Run(int slot, const AttentionParams& params, absl::Span<const BatchItem> items,
                   const std::stop_token& stop) override;

  // Of the arena, as long as the region lives; the device outlives it. Calls are refused as too large by what is left.
  absl::StatusOr<std::unique_ptr<StagingPool::Region>> TakePages(size_t bytes) override;
  // Pinned, as long as the region lives, so that pages travel without the CPU. RESOURCE_EXHAUSTED where the system does
  // not pin so much.
  absl::StatusOr<std::unique_ptr<StagingPool::Region>> TakeHostPages(size_t bytes) override;
  // As Run. Page tables and scales pass through the slot's table memory: also RESOURCE_EXHAUSTED where the system does
  // not pin what a batch needs beyond that. Slots run side by side, so REQUIRES: no batch under way on another slot
  // appends to, clears or copies to pages of this one.
  BatchOutcome Extend(int slot, const PagedParams& params, absl::Span<const ExtendItem> items,
                      const std::stop_token& stop) override;

 private:
  CudaDevice(DeviceInfo info, std::unique_ptr<cuda::GpuBackend> backend, std::unique_ptr<cuda::GpuPagedBackend> paged,
             std::shared_ptr<StagingPool> staging, std::unique_ptr<DeviceMemory> memory,
             const CudaRegionMapper& region_mapper)
      : info_(std::move(info)),
        backend_(std::move(backend)),
        paged_(std::move(paged)),
        staging_(std::move(staging)),
        memory_(std::move(memory)),
        region_mapper_(region_mapper) {}

  // Sets memory, the device's or pinned, to zero.
  absl::Status Clear(absl::Span<std::byte> memory) const;

  const DeviceInfo info_;
  const std::unique_ptr<cuda::GpuBackend> backend_;
  const std::unique_ptr<cuda::GpuPagedBackend> paged_;  // may be null
  const std::shared_ptr<StagingPool> staging_;
  const std::unique_ptr<DeviceMemory> memory_;
  CudaRegionMapper region_mapper_;
  CudaSlot::Shared shared_ = {};  // as Open leaves it
  std::vector<std::unique_ptr<CudaSlot>> slots_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_CUDA_CUDA_DEVICE_H_
