#include "server/request/device_job.h"

#include "absl/base/internal/raw_logging.h"

namespace tessera {

void DeviceJob::SetArrival(absl::Time received, absl::Time queued) {
  ABSL_RAW_CHECK(state() == State::kCreated || state() == State::kDone, "a job has arrived before it is queued");
  times_.received = received;
  times_.queued = queued;
}

bool DeviceJob::Complete(const Run& run) {
  times_.launched = run.launched;
  times_.finished = run.finished;
  times_.batch_jobs = run.batch_jobs;
  return Finish(absl::OkStatus());
}

const JobTimes& DeviceJob::times() const {
  ABSL_RAW_CHECK(completed_.load(std::memory_order_acquire), "only a job that has ended with OK has times");
  return times_;
}

void DeviceJob::OnDone(const absl::Status& status, State where) {
  if (status.ok()) completed_.store(true, std::memory_order_release);
  OnEnded(status, where);
}

}  // namespace tessera
