// A job that runs on a device, of whatever kind: what the engine needs of it.
#ifndef TESSERA_SERVER_REQUEST_DEVICE_JOB_H_
#define TESSERA_SERVER_REQUEST_DEVICE_JOB_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/attention.h"
#include "server/scheduler/job.h"

namespace tessera {

// Times at which a job passed from stage to stage, on the server's clock.
struct JobTimes {
  absl::Time received = absl::InfinitePast();  // its first message, which gRPC has whole by then
  absl::Time queued = absl::InfinitePast();
  absl::Time launched = absl::InfinitePast();  // its batch was handed to the device
  absl::Time finished = absl::InfinitePast();  // its outputs were in staging memory
  int64_t batch_jobs = 0;                      // jobs that ran together with it, itself included
};

// What a batch's runner tells jobs apart by.
enum class JobKind : uint8_t { kAttend, kExtend };

// Jobs with equal keys are of one kind: they share queue and engine, and a BatchRunner runs a batch of them.
class DeviceJob : public Job {
 public:
  // How it was run.
  struct Run {
    absl::Time launched;
    absl::Time finished;
    int64_t batch_jobs = 0;
  };

  DeviceJob(Traits traits, DType dtype, JobKind kind) : Job(std::move(traits)), dtype_(dtype), kind_(kind) {}

  DType dtype() const { return dtype_; }
  JobKind kind() const { return kind_; }

  // REQUIRES: before the job is enqueued.
  void SetArrival(absl::Time received, absl::Time queued);
  // For the engine: ends the job with OK unless it has ended already; returns whether this call did. REQUIRES: called
  // by one thread at a time.
  bool Complete(const Run& run);
  // All of them. REQUIRES: the job has ended with OK, and the caller knows that from its end (OnEnded, or what came of
  // it). Otherwise nobody may read the times, for another thread may be writing them; that is checked.
  const JobTimes& times() const;

 protected:
  // Job::OnDone.
  virtual void OnEnded(const absl::Status& status, State where) = 0;

 private:
  void OnDone(const absl::Status& status, State where) final;

  const DType dtype_;
  const JobKind kind_;
  JobTimes times_;
  std::atomic<bool> completed_{false};  // ended with OK: the times are fixed
};

using DeviceJobPtr = std::shared_ptr<DeviceJob>;

}  // namespace tessera

#endif  // TESSERA_SERVER_REQUEST_DEVICE_JOB_H_
