#include "server/open_device.h"

#include <utility>

#include "absl/status/status.h"
#include "kernels/cpu/cpu_backend.h"
#include "server/clock/clock.h"
#include "server/device/cpu_device.h"
#include "server/device/fault_device.h"
#include "server/device/fault_script.h"

namespace tessera {

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const ServerConfig& config) {
  absl::StatusOr<FaultScript> faults = ParseFaultScript(config.fault_script);
  if (!faults.ok()) return faults.status();
  if (config.backend == "cuda") {
    return absl::UnavailableError("backend: this build has no CUDA kernels; use --backend=cpu or auto");
  }
  absl::StatusOr<std::unique_ptr<CpuDevice>> cpu = CpuDevice::Make(
      MakeCpuBackend(config.threads), static_cast<size_t>(config.staging_bytes), config.slots, Clock::Real());
  if (!cpu.ok()) return cpu.status();
  if (faults->rules.empty()) return std::unique_ptr<Device>(*std::move(cpu));
  return std::make_unique<FaultDevice>(*std::move(cpu), *std::move(faults), Clock::Real());
}

}  // namespace tessera
