#include "server/open_devices.h"

#include <utility>

#include "absl/status/status.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/paged_backend.h"
#include "server/clock/clock.h"
#include "server/device/cpu_device.h"
#include "server/device/fault_device.h"
#include "server/device/fault_script.h"
#include "server/open_gpus.h"

namespace tessera {
namespace {

using Devices = std::vector<std::unique_ptr<Device>>;

absl::StatusOr<Devices> OpenCpu(const ServerConfig& config) {
  absl::StatusOr<std::unique_ptr<CpuDevice>> cpu =
      CpuDevice::Make(MakeCpuBackend(config.threads), static_cast<size_t>(config.staging_bytes),
                      SlotsFor(config, "cpu"), Clock::Real(), MakeCpuPagedBackend(config.threads));
  if (!cpu.ok()) return cpu.status();
  Devices devices;
  devices.push_back(*std::move(cpu));
  return devices;
}

absl::StatusOr<Devices> OpenFaultless(const ServerConfig& config) {
  if (config.backend == "cpu") return OpenCpu(config);
  absl::StatusOr<Devices> gpus = OpenGpus(config);
  const bool none = absl::IsUnavailable(gpus.status());
  return none && config.backend == "auto" ? OpenCpu(config) : std::move(gpus);
}

}  // namespace

absl::StatusOr<Devices> OpenDevices(const ServerConfig& config) {
  const absl::StatusOr<FaultScript> faults = ParseFaultScript(config.fault_script);
  if (!faults.ok()) return faults.status();
  absl::StatusOr<Devices> devices = OpenFaultless(config);
  if (!devices.ok()) return devices;
  for (std::unique_ptr<Device>& device : *devices) {
    FaultScript script = ScriptOf(*faults, device->info().index);
    if (script.rules.empty()) continue;
    device = std::make_unique<FaultDevice>(std::move(device), std::move(script), Clock::Real());
  }
  return devices;
}

}  // namespace tessera
