#include "server/engine/attend_runner.h"

#include <vector>

#include "server/request/attend_job.h"

namespace tessera {

BatchOutcome AttendRunner::Run(int slot, absl::Span<const DeviceJobPtr> jobs, const std::stop_token& stop) {
  std::vector<BatchItem> items;
  items.reserve(jobs.size());
  for (const DeviceJobPtr& each : jobs) {
    AttendJob& job = static_cast<AttendJob&>(*each);
    items.push_back({.input = {job.input().data(), job.input().size()},
                     .output = {job.output().data(), job.output().size()},
                     .sequences = job.sequences()});
  }
  // Equal keys mean equal parameters.
  return device_->Run(slot, static_cast<const AttendJob&>(*jobs[0]).shape().params, items, stop);
}

}  // namespace tessera
