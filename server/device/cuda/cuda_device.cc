#include "server/device/cuda/cuda_device.h"

#include <string>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "server/device/cuda/page_region.h"
#include "server/device/cuda/pinned_region.h"

namespace tessera {

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(const CudaDeviceOptions& options,
                                                             std::unique_ptr<cuda::GpuBackend> backend,
                                                             std::shared_ptr<StagingPool> staging, CudaCalls* calls,
                                                             std::unique_ptr<cuda::GpuPagedBackend> paged) {
  ABSL_RAW_CHECK(options.slots >= 1, "a device has a slot");
  if (absl::Status selected = calls->SelectDevice(options.device); !selected.ok()) return selected;
  absl::StatusOr<CudaDeviceFacts> facts = calls->Describe(options.device);
  if (!facts.ok()) return facts.status();
  const auto bytes = static_cast<size_t>(options.memory_fraction * static_cast<double>(facts->free_bytes));
  absl::StatusOr<std::unique_ptr<DeviceMemory>> memory = DeviceMemory::Take(options.device, bytes, calls);
  if (!memory.ok()) return memory.status();

  DeviceInfo info{.index = options.index,
                  .backend = "cuda",
                  .name = std::move(facts->name),
                  .kernel = std::string(backend->name()),
                  .memory_bytes = static_cast<int64_t>((*memory)->capacity()),
                  .slots = options.slots};
  std::unique_ptr<CudaDevice> device(new CudaDevice(std::move(info), std::move(backend), std::move(paged),
                                                    std::move(staging), *std::move(memory),
                                                    CudaRegionMapper(options.device, facts->uuid, calls)));
  device->shared_ = {.device = options.device,
                     .backend = device->backend_.get(),
                     .paged = device->paged_.get(),
                     .memory = device->memory_.get(),
                     .calls = calls,
                     .looks = options.looks};
  for (int slot = 0; slot < options.slots; ++slot) {
    absl::StatusOr<std::unique_ptr<CudaSlot>> created = CudaSlot::Create(device->shared_);
    if (!created.ok()) return created.status();
    if (device->paged_ != nullptr) {
      if (absl::Status taken = (*created)->TakeTableMemory(options.table_bytes); !taken.ok()) return taken;
    }
    device->slots_.push_back(*std::move(created));
  }
  return device;
}

int64_t CudaDevice::launch_memory() const {
  int64_t bytes = backend_->ReservedScratchBytes().value_or(0);
  if (paged_ != nullptr) bytes += paged_->ReservedScratchBytes().value_or(0);
  return bytes;
}

int64_t CudaDevice::pinned_launch_memory() const {
  int64_t bytes = 0;
  for (const std::unique_ptr<CudaSlot>& slot : slots_) bytes += slot->table_bytes();
  return bytes;
}

BatchOutcome CudaDevice::Run(int slot, const AttentionParams& params, absl::Span<const BatchItem> items,
                             const std::stop_token& stop) {
  return slots_[static_cast<size_t>(slot)]->Run(params, items, stop);
}

absl::StatusOr<std::unique_ptr<StagingPool::Region>> CudaDevice::TakePages(size_t bytes) {
  if (paged_ == nullptr) return Device::TakePages(bytes);
  absl::StatusOr<DeviceMemory::Block> block = memory_->Keep(bytes);
  if (!block.ok()) return block.status();
  if (absl::Status cleared = Clear({block->data(), bytes}); !cleared.ok()) return cleared;
  return std::make_unique<PageRegion>(*std::move(block), bytes);
}

absl::StatusOr<std::unique_ptr<StagingPool::Region>> CudaDevice::TakeHostPages(size_t bytes) {
  if (paged_ == nullptr) return Device::TakeHostPages(bytes);
  if (absl::Status selected = shared_.calls->SelectDevice(shared_.device); !selected.ok()) return selected;
  absl::StatusOr<std::unique_ptr<PinnedRegion>> region = PinnedRegion::Allocate(bytes, shared_.calls);
  if (!region.ok()) {
    shared_.calls->ForgetError();
    return region.status();
  }
  if (absl::Status cleared = Clear({(*region)->data(), bytes}); !cleared.ok()) return cleared;
  return *std::move(region);
}

absl::Status CudaDevice::Clear(absl::Span<std::byte> memory) const {
  // A slot of its own, for those there are may be at work.
  const absl::StatusOr<std::unique_ptr<CudaSlot>> slot = CudaSlot::Create(shared_);
  return slot.ok() ? (*slot)->Clear(memory) : slot.status();
}

BatchOutcome CudaDevice::Extend(int slot, const PagedParams& params, absl::Span<const ExtendItem> items,
                                const std::stop_token& stop) {
  if (paged_ == nullptr) return Device::Extend(slot, params, items, stop);
  return slots_[static_cast<size_t>(slot)]->Extend(params, items, stop);
}

}  // namespace tessera
