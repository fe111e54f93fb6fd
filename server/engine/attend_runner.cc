#include "server/engine/attend_runner.h"

#include <array>
#include <cstddef>
#include <vector>

#include "server/request/attend_job.h"

namespace tessera {
namespace {

constexpr size_t kTensors = 5;

// Those of a call in shared memory, filled into `tensors`; none of other calls.
absl::Span<const HostTensor> HostTensorsOf(const AttendJob& job, std::array<HostTensor, kTensors>& tensors) {
  const TensorPlaces& places = job.places();
  if (places.lease == nullptr || places.on_device) return {};
  const AttendShape& shape = job.shape();
  const auto q_bytes = static_cast<size_t>(shape.q_bytes);
  const auto kv_bytes = static_cast<size_t>(shape.kv_bytes);
  tensors = {{{places.q, q_bytes, false},
              {places.k, kv_bytes, false},
              {places.v, kv_bytes, false},
              {places.o, q_bytes, true},
              {places.lse, static_cast<size_t>(shape.lse_bytes), true}}};
  return tensors;
}

}  // namespace

BatchOutcome AttendRunner::Run(int slot, absl::Span<const DeviceJobPtr> jobs, const std::stop_token& stop) {
  std::vector<BatchItem> items;
  std::vector<std::array<HostTensor, kTensors>> tensors(jobs.size());
  items.reserve(jobs.size());
  for (const DeviceJobPtr& each : jobs) {
    AttendJob& job = static_cast<AttendJob&>(*each);
    std::array<HostTensor, kTensors>& own = tensors[items.size()];
    items.push_back({.input = {job.input().data(), job.input().size()},
                     .output = {job.output().data(), job.output().size()},
                     .sequences = job.sequences(),
                     .tensors = HostTensorsOf(job, own)});
  }
  // Equal keys mean equal parameters.
  return device_->Run(slot, static_cast<const AttendJob&>(*jobs[0]).shape().params, items, stop);
}

}  // namespace tessera
