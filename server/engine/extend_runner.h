// Runs batches of Extend calls.
#ifndef TESSERA_SERVER_ENGINE_EXTEND_RUNNER_H_
#define TESSERA_SERVER_ENGINE_EXTEND_RUNNER_H_

#include <stop_token>

#include "absl/types/span.h"
#include "server/device/device.h"
#include "server/engine/batch_runner.h"

namespace tessera {

// REQUIRES: every job is an ExtendJob that has begun, of a cache on this device.
class ExtendRunner final : public BatchRunner {
 public:
  // The device outlives the runner.
  explicit ExtendRunner(Device* device) : device_(device) {}

  DeviceInfo info() const override { return device_->info(); }
  BatchOutcome Run(int slot, absl::Span<const DeviceJobPtr> jobs, const std::stop_token& stop) override;

 private:
  Device* const device_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_ENGINE_EXTEND_RUNNER_H_
