#include "server/engine/extend_runner.h"

#include <vector>

#include "server/request/extend_job.h"

namespace tessera {

BatchOutcome ExtendRunner::Run(int slot, absl::Span<const DeviceJobPtr> jobs, const std::stop_token& stop) {
  std::vector<ExtendItem> items;
  items.reserve(jobs.size());
  for (const DeviceJobPtr& each : jobs) {
    ExtendJob& job = static_cast<ExtendJob&>(*each);
    items.push_back({.fills = job.fills(),
                     .copies = job.copies().on_device,
                     .to_host = job.copies().to_host,
                     .from_host = job.copies().from_host,
                     .input = {job.input().data(), job.input().size()},
                     .output = {job.output().data(), job.output().size()},
                     .sequences = job.sequences()});
  }
  // Equal keys mean equal parameters.
  return device_->Extend(slot, static_cast<const ExtendJob&>(*jobs[0]).params(), items, stop);
}

}  // namespace tessera
