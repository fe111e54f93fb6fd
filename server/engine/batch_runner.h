// How the engine has a batch run, whatever its jobs are.
#ifndef TESSERA_SERVER_ENGINE_BATCH_RUNNER_H_
#define TESSERA_SERVER_ENGINE_BATCH_RUNNER_H_

#include <stop_token>

#include "absl/types/span.h"
#include "server/device/device.h"
#include "server/request/device_job.h"

namespace tessera {

// Stands between the engine, which knows when a batch runs and what its outcome means, and the device, which knows how.
// Thread-safe; each slot is used by one thread at a time.
class BatchRunner {
 public:
  virtual ~BatchRunner() = default;

  // The device that the batches run on.
  virtual DeviceInfo info() const = 0;
  // Runs jobs of equal keys as Device::Run does. REQUIRES: not empty; the caller holds the jobs until it returns.
  virtual BatchOutcome Run(int slot, absl::Span<const DeviceJobPtr> jobs, const std::stop_token& stop) = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_ENGINE_BATCH_RUNNER_H_
