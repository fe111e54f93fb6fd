// The schedulers of a server's devices as one: each job is placed with the device that has the least to do.
#ifndef TESSERA_SERVER_SCHEDULER_SCHEDULER_GROUP_H_
#define TESSERA_SERVER_SCHEDULER_SCHEDULER_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/clock/clock.h"
#include "server/scheduler/scheduler.h"

namespace tessera {

// A device's engine takes from its own scheduler and closes it where the device is lost; jobs then go to the others.
// A job stays where it has been placed. The bounds of SchedulerOptions hold for each device. Thread-safe.
class SchedulerGroup {
 public:
  // `clock` outlives the group. REQUIRES: Validate(options).ok(), devices >= 1.
  SchedulerGroup(const SchedulerOptions& options, size_t devices, Clock* clock);

  Scheduler& of(size_t device) { return *schedulers_[device]; }

  // As Scheduler::Enqueue, with the scheduler of the least outstanding cost that is open and has room, or the job's
  // only one (Traits::device). Where none is: UNAVAILABLE if all are closed, otherwise RESOURCE_EXHAUSTED.
  absl::Status Enqueue(const JobPtr& job);
  // As Scheduler::Expect. REQUIRES: only one device can run the job (Traits::device).
  absl::Status Expect(const JobPtr& job);
  // As Scheduler::Forget.
  void Forget(const Job& job);
  // As Scheduler::refusal, of the job's. REQUIRES: it has been expected or enqueued.
  absl::Status Refusal(const Job& job) const;

  // Of all devices.
  void Close(const absl::Status& refusal = absl::UnavailableError("the server is draining"));
  void Abort(const absl::Status& status);

  // Jobs and bytes waiting, all devices together.
  int64_t queued_jobs() const;
  int64_t queued_bytes() const;
  // Jobs that are expected, and their bytes.
  int64_t expected_jobs() const;
  int64_t expected_bytes() const;
  // The shortest of the open schedulers'.
  absl::Duration RetryAfter() const;

 private:
  // The scheduler of the job's device, or of the only one there is; notes that it is there.
  Scheduler* OnlyOneOf(const JobPtr& job);

  std::vector<std::unique_ptr<Scheduler>> schedulers_;
  absl::Mutex placing_;  // held from looking at the costs to being one of them: of two jobs the second sees the first
};

}  // namespace tessera

#endif  // TESSERA_SERVER_SCHEDULER_SCHEDULER_GROUP_H_
