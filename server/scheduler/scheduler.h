// Where jobs wait, and where batches are formed.
//
// Jobs wait in a queue bounded in jobs and bytes. A batch is formed when an executor asks for one, out of what waits at
// that moment: the next job by priority and fair share, and then every compatible job (equal BatchKey) that fits, in
// the same order. While idle executors wait nothing is delayed; `batch_delay` may hold back a small batch only while
// another batch is running.
//
// Fairness: within a priority, tenants take turns by deficit round robin over cost, so a tenant's share does not depend
// on how many jobs it sends or how large they are. Between sizes: after `max_consecutive_large` batches led by a job of
// cost >= `large_cost`, a waiting job below it goes first.
#ifndef TESSERA_SERVER_SCHEDULER_SCHEDULER_H_
#define TESSERA_SERVER_SCHEDULER_SCHEDULER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/clock/clock.h"
#include "server/scheduler/fair_queue.h"
#include "server/scheduler/job.h"

namespace tessera {

struct SchedulerOptions {
  int64_t max_queue_jobs = 4096;
  int64_t max_queue_bytes = int64_t{4} << 30;
  int64_t max_batch_jobs = 256;  // 1 turns batching off
  int64_t max_batch_tokens = 65536;
  int64_t max_batch_cost = int64_t{1} << 40;  // a single job above it still runs, alone
  absl::Duration batch_delay = absl::ZeroDuration();
  int64_t large_cost = int64_t{1} << 34;
  int max_consecutive_large = 2;
};

// Thread-safe. Finish() of jobs that it drops runs on the thread that drops them, never under its lock.
class Scheduler {
 public:
  // `clock` outlives the scheduler.
  Scheduler(const SchedulerOptions& options, Clock* clock);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  // REQUIRES: no thread is in TakeBatch.
  ~Scheduler();

  // Takes the job into the queue (kCreated -> kQueued). On an error the job is the caller's to finish:
  // RESOURCE_EXHAUSTED where the queue is full, UNAVAILABLE after Close, DEADLINE_EXCEEDED where its deadline has
  // passed, CANCELLED where it has ended already.
  absl::Status Enqueue(JobPtr job);

  // Forgets a job that has ended while it waited, so that it no longer counts. Call it after Finish; harmless for a job
  // that is not waiting.
  void Forget(const Job& job);

  // Waits for work and returns a batch of compatible jobs, each moved to kBatched; empty only once closed and drained.
  // Jobs whose deadline has passed are finished with DEADLINE_EXCEEDED instead.
  std::vector<JobPtr> TakeBatch();

  // Tells the scheduler that a batch returned by TakeBatch is over: drives `batch_delay` and Drain.
  void BatchDone();

  // Refuses new jobs from now on; waiting ones still run.
  void Close();
  // Finishes every waiting job with `status`. Use after Close, or on a device's death.
  void Abort(const absl::Status& status);
  // Waits until nothing waits or runs, or the deadline passes; returns whether it drained.
  bool Drain(absl::Time deadline);

  // Jobs and bytes waiting.
  int64_t queued_jobs() const;
  int64_t queued_bytes() const;
  // When a refused caller should come back: the time the queue needs to empty at its recent pace, 1 ms to 5 s.
  absl::Duration RetryAfter() const;

 private:
  // Fill in.
};

}  // namespace tessera

#endif  // TESSERA_SERVER_SCHEDULER_SCHEDULER_H_
