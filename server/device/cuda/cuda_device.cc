#include "server/device/cuda/cuda_device.h"

#include <string>
#include <utility>

#include "absl/base/internal/raw_logging.h"

namespace tessera {

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(const CudaDeviceOptions& options,
                                                             std::unique_ptr<cuda::GpuBackend> backend,
                                                             std::shared_ptr<StagingPool> staging, CudaCalls* calls) {
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
  std::unique_ptr<CudaDevice> device(new CudaDevice(std::move(info), std::move(backend), std::move(staging),
                                                    *std::move(memory),
                                                    CudaRegionMapper(options.device, facts->uuid, calls)));
  const CudaSlot::Shared shared = {
      .device = options.device, .backend = device->backend_.get(), .memory = device->memory_.get(), .calls = calls};
  for (int slot = 0; slot < options.slots; ++slot) {
    absl::StatusOr<std::unique_ptr<CudaSlot>> created = CudaSlot::Create(shared);
    if (!created.ok()) return created.status();
    device->slots_.push_back(*std::move(created));
  }
  return device;
}

BatchOutcome CudaDevice::Run(int slot, const AttentionParams& params, absl::Span<const BatchItem> items,
                             const std::stop_token& stop) {
  return slots_[static_cast<size_t>(slot)]->Run(params, items, stop);
}

}  // namespace tessera
