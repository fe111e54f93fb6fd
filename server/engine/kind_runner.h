// Hands each batch to the runner of its kind.
#ifndef TESSERA_SERVER_ENGINE_KIND_RUNNER_H_
#define TESSERA_SERVER_ENGINE_KIND_RUNNER_H_

#include <stop_token>

#include "absl/types/span.h"
#include "server/device/device.h"
#include "server/engine/attend_runner.h"
#include "server/engine/batch_runner.h"
#include "server/engine/extend_runner.h"

namespace tessera {

// Everything that a device of a server runs.
class KindRunner final : public BatchRunner {
 public:
  // The device outlives the runner.
  explicit KindRunner(Device* device) : attend_(device), extend_(device) {}

  DeviceInfo info() const override { return attend_.info(); }
  BatchOutcome Run(int slot, absl::Span<const DeviceJobPtr> jobs, const std::stop_token& stop) override {
    return jobs[0]->kind() == JobKind::kExtend ? extend_.Run(slot, jobs, stop) : attend_.Run(slot, jobs, stop);
  }

 private:
  AttendRunner attend_;
  ExtendRunner extend_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_ENGINE_KIND_RUNNER_H_
