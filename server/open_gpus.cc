#include "server/open_gpus.h"

#include <cstddef>
#include <utility>

#include "server/config/device_list.h"
#include "server/device/cuda/cuda_device.h"
#include "server/device/cuda/pinned_region.h"
#include "server/device/cuda/real_cuda_calls.h"
#include "server/gpu_backend.h"

namespace tessera {

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenGpus(const ServerConfig& config) {
  CudaCalls* const calls = GetRealCudaCalls();
  const absl::StatusOr<int> count = calls->CountDevices();
  if (!count.ok()) return count.status();
  const absl::StatusOr<std::vector<int>> chosen = ChooseDevices(config.device, *count);
  if (!chosen.ok()) return chosen.status();
  if (absl::Status selected = calls->SelectDevice(chosen->front()); !selected.ok()) return selected;
  absl::StatusOr<std::unique_ptr<PinnedRegion>> region =
      PinnedRegion::Allocate(static_cast<size_t>(config.staging_bytes), calls);
  if (!region.ok()) return region.status();
  const auto staging = std::make_shared<StagingPool>(*std::move(region));

  std::vector<std::unique_ptr<Device>> devices;
  for (const int number : *chosen) {
    absl::StatusOr<std::unique_ptr<cuda::GpuBackend>> backend = MakeGpuBackend(number);
    if (!backend.ok()) return backend.status();
    absl::StatusOr<std::unique_ptr<cuda::GpuPagedBackend>> paged = MakeGpuPagedBackend(number);
    if (!paged.ok()) return paged.status();
    CudaDeviceOptions options;
    options.index = static_cast<int>(devices.size());
    options.device = number;
    options.slots = SlotsFor(config, "cuda");
    options.memory_fraction = config.memory_fraction;
    absl::StatusOr<std::unique_ptr<CudaDevice>> device =
        CudaDevice::Open(options, *std::move(backend), staging, calls, *std::move(paged));
    if (!device.ok()) return device.status();
    devices.push_back(*std::move(device));
  }
  return devices;
}

}  // namespace tessera
