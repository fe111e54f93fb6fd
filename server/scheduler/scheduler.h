// Where jobs wait, and where batches are formed.
//
// Jobs wait in a queue bounded in jobs and bytes. A batch is formed when an executor asks for one, out of what waits at
// that moment: the next job by priority and fair share, and then compatible jobs (equal BatchKey, same size class) in
// the same order until one does not fit. While idle executors wait nothing is delayed, with two exceptions. Light work
// collects while kLightBatches batches of light work run, until one of them ends: more at a time would cost launches
// and gain nothing. And `batch_delay` may hold back a small batch while another batch is running, or where calls come
// so fast that the last batch had several: then until that long after its start, so that a device quicker than its
// callers does not run them one by one.
//
// Fairness: priorities are strict. Within a priority, tenants take turns by deficit round robin over cost, so a
// tenant's share does not depend on how many jobs it sends or how large they are. Between sizes: a job of cost >=
// `large_cost` is large and shares batches with large ones only; after `max_consecutive_large` large batches in a row a
// waiting small job goes first, whatever its priority, so that decodes do not starve behind prefills.
//
// Deadlines: a job that expires while it waits is finished by whoever meets it: TakeBatch, or ExpireOverdue, which some
// thread calls every few milliseconds so that an answer does not depend on a free executor.
//
// docs/batching.md is the guide to these knobs.
#ifndef TESSERA_SERVER_SCHEDULER_SCHEDULER_H_
#define TESSERA_SERVER_SCHEDULER_SCHEDULER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/clock/clock.h"
#include "server/scheduler/fair_queue.h"
#include "server/scheduler/job.h"
#include "server/scheduler/lookout.h"
#include "server/scheduler/pace.h"

namespace tessera {

struct SchedulerOptions {
  int64_t max_queue_jobs = 4096;
  int64_t max_queue_bytes = int64_t{4} << 30;
  double max_tenant_share = 1.0;  // of either bound that one tenant may fill, in (0, 1]
  int64_t max_batch_jobs = 256;   // 1 turns batching off
  int64_t max_batch_tokens = 65536;
  int64_t max_batch_cost = int64_t{1} << 40;
  int64_t max_batch_sequences = 16384;    // a single job above this, or the two above, still runs, alone
  int64_t light_cost = int64_t{1} << 29;  // what waits, or a batch that runs, is light below it; 0: nothing is
  absl::Duration batch_delay = absl::ZeroDuration();
  // How long an executor looks for work before it sleeps, and readers stay awake for a lone caller; 0: not at all.
  absl::Duration lookout = absl::ZeroDuration();
  int64_t fair_quantum = int64_t{1} << 27;  // cost that a tenant may spend before the next one's turn
  int64_t large_cost = int64_t{1} << 34;
  int max_consecutive_large = 2;
};

// INVALID_ARGUMENT naming the option, as the server's flags do, and its range.
absl::Status Validate(const SchedulerOptions& options);

// Thread-safe. Finish() of jobs that it drops runs on the thread that drops them, never under its lock.
class Scheduler {
 public:
  // Batches of light work that run at a time: one copies in or answers while the other computes.
  static constexpr int kLightBatches = 2;
  // Batches of one job, nothing else waiting or running, that tell a lone caller.
  static constexpr int kLoneJobs = 16;
  // One that starts while another still runs tells less: either there are several callers, or a lone one has had its
  // answer before that batch was over.
  static constexpr int kLoneJobsLost = 4;

  // `clock` outlives the scheduler. REQUIRES: Validate(options).ok().
  Scheduler(const SchedulerOptions& options, Clock* clock);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  // Waiting jobs are finished with UNAVAILABLE. REQUIRES: no thread is in TakeBatch.
  ~Scheduler();

  // Takes the job into the queue (kCreated -> kQueued). On an error the job is the caller's to finish:
  // RESOURCE_EXHAUSTED where the queue, or the tenant's share of it, is full; INVALID_ARGUMENT where it could never
  // hold the job; UNAVAILABLE after Close; DEADLINE_EXCEEDED where the deadline has passed; CANCELLED where the job has
  // ended already.
  absl::Status Enqueue(JobPtr job);

  // Keeps room for a job that is to be enqueued later, so that what waits elsewhere is bounded by the same bounds:
  // until Enqueue, whatever that answers, or Forget. Fails as Enqueue does. REQUIRES: the job lives until then.
  absl::Status Expect(const Job& job);

  // Forgets a job that has ended while it waited or was expected, so that it no longer counts. Call it after Finish;
  // harmless for another job.
  void Forget(const Job& job);

  // Waits for work and returns a batch of compatible jobs, each moved to kBatched; empty only once closed and drained.
  // Jobs whose deadline has passed are finished with DEADLINE_EXCEEDED instead.
  std::vector<JobPtr> TakeBatch();

  // Has an executor that looks for work call `task`, and returns when it has; false where none takes it. One does only
  // for a lone caller: the messages of many are better handled side by side. For what is short and usually brings a
  // job. See Lookout::Hand for what it may do.
  bool HandToLookout(absl::FunctionRef<void()> task) { return lookout_.Hand(task); }

  // Finishes overdue jobs with DEADLINE_EXCEEDED, a bounded number of them. Returns when to call again at the latest:
  // the earliest deadline left, which has passed already where there were more; InfiniteFuture where no job has one.
  absl::Time ExpireOverdue();

  // Tells the scheduler that a batch returned by TakeBatch is over: drives `batch_delay` and Drain.
  void BatchDone();
  // Likewise, of a batch that was stopped before its end: it tells nothing of the executors' pace.
  void BatchStopped();

  // Refuses new jobs from now on, with the first `refusal` given; waiting ones still run.
  void Close(const absl::Status& refusal = absl::UnavailableError("the server is draining"));
  // Finishes every waiting job with `status`. Use after Close, or on a device's death.
  void Abort(const absl::Status& status);
  // Waits until nothing waits or runs, or the deadline passes; returns whether it drained.
  bool Drain(absl::Time deadline);

  bool closed() const { return !refusal().ok(); }
  // What new jobs are refused with; OK until it is closed.
  absl::Status refusal() const;

  // Estimated work that waits or runs.
  double outstanding_cost() const;
  // Jobs and bytes waiting.
  int64_t queued_jobs() const;
  int64_t queued_bytes() const;
  // Jobs that are expected, and their bytes.
  int64_t expected_jobs() const;
  int64_t expected_bytes() const;
  // When a refused caller should come back: the time that what waits or is expected and what runs takes at the recent
  // pace, 1 ms to 5 s.
  absl::Duration RetryAfter() const;

 private:
  bool WorkToStartOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !refusal_.ok() || (!queue_.empty() && !LightWorkCollects() && !lookout_.looking());
  }
  // Whether what waits is better left to collect until a batch ends. Never for long: all that runs is light.
  bool LightWorkCollects() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Drained() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return queue_.empty() && pace_.running() == 0; }
  // Counts a batch that starts now, towards a lone caller or against.
  void CountLoneJobs(const FairQueue::Batch& batch, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool LoneCaller() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return lone_jobs_ >= kLoneJobs; }
  // Whether waiting makes no sense: a full batch, or none, or closed.
  bool NothingToWaitFor() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool NothingRunsOrToWaitFor() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return pace_.running() == 0 || NothingToWaitFor();
  }
  // Waits for company, as batch_delay says. REQUIRES: the queue is not empty.
  void HoldBack() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Looks for work a moment, where there is none. Whether it did: then the look is to be ended with the lock held.
  bool LookOut() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for work. A batch without jobs where all that was met had ended or expired, or another executor was quicker;
  // nothing once closed and drained.
  std::optional<FairQueue::Batch> NextBatch() ABSL_LOCKS_EXCLUDED(mutex_);

  const SchedulerOptions options_;
  Clock* const clock_;
  Lookout lookout_;
  mutable absl::Mutex mutex_;
  FairQueue queue_ ABSL_GUARDED_BY(mutex_);
  Pace pace_ ABSL_GUARDED_BY(mutex_);
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);  // not OK: closed
  int consecutive_large_ ABSL_GUARDED_BY(mutex_) = 0;
  int lone_jobs_ ABSL_GUARDED_BY(mutex_) = 0;                             // kLoneJobs at most
  absl::Time last_start_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // of a batch
  absl::Time more_until_ ABSL_GUARDED_BY(mutex_) =
      absl::InfinitePast();  // the last batch had several jobs; see HoldBack
};

}  // namespace tessera

#endif  // TESSERA_SERVER_SCHEDULER_SCHEDULER_H_
