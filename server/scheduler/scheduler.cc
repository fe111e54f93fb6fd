#include "server/scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"
#include "server/scheduler/awake_readers.h"

namespace tessera {
namespace {

// Jobs that one call of ExpireOverdue takes out under the lock.
constexpr size_t kExpiredPerSweep = 256;

constexpr absl::Duration kLeastRetry = absl::Milliseconds(1);
constexpr absl::Duration kMostRetry = absl::Seconds(5);
// Before any batch has ended there is no pace to go by.
constexpr absl::Duration kFirstRetry = absl::Milliseconds(100);

void Finish(const std::vector<JobPtr>& jobs, const absl::Status& status) {
  for (const JobPtr& job : jobs) job->Finish(status);
}

absl::Status Expired() { return absl::DeadlineExceededError("the deadline passed before the call was run"); }

FairQueue::Options QueueOptions(const SchedulerOptions& options) {
  return {.max_jobs = options.max_queue_jobs,
          .max_bytes = options.max_queue_bytes,
          .max_tenant_share = options.max_tenant_share,
          .large_cost = options.large_cost,
          .quantum = options.fair_quantum};
}

}  // namespace

absl::Status Validate(const SchedulerOptions& options) {
  const struct {
    absl::string_view name;
    int64_t value;
  } positive[] = {
      {"max_queue_requests", options.max_queue_jobs},
      {"max_queue_bytes", options.max_queue_bytes},
      {"max_batch_requests", options.max_batch_jobs},
      {"max_batch_tokens", options.max_batch_tokens},
      {"max_batch_cost", options.max_batch_cost},
      {"fair_quantum", options.fair_quantum},
      {"large_cost", options.large_cost},
      {"max_consecutive_large", options.max_consecutive_large},
      {"max_batch_sequences", options.max_batch_sequences},
  };
  for (const auto& option : positive) {
    if (option.value < 1) {
      return absl::InvalidArgumentError(absl::StrCat(option.name, ": ", option.value, " is not at least 1"));
    }
  }
  if (!(options.max_tenant_share > 0 && options.max_tenant_share <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_tenant_share: ", options.max_tenant_share, " is not above 0 and at most 1"));
  }
  if (options.light_cost < 0) {
    return absl::InvalidArgumentError(absl::StrCat("light_cost: ", options.light_cost, " is not at least 0"));
  }
  if (options.lookout < absl::ZeroDuration() || options.lookout > absl::Seconds(1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("slot_lookout: ", absl::FormatDuration(options.lookout), " is not 0 to 1 s"));
  }
  if (options.batch_delay < absl::ZeroDuration() || options.batch_delay > absl::Seconds(1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_delay: ", absl::FormatDuration(options.batch_delay), " is not 0 to 1 s"));
  }
  return absl::OkStatus();
}

Scheduler::Scheduler(const SchedulerOptions& options, Clock* clock)
    : options_(options), clock_(clock), lookout_(options.lookout), queue_(QueueOptions(options)) {
  ABSL_RAW_CHECK(Validate(options).ok(), "options have been validated");
}

Scheduler::~Scheduler() {
  const absl::Status gone = absl::UnavailableError("the server is shutting down");
  Close(gone);
  Abort(gone);
}

absl::Status Scheduler::Enqueue(JobPtr job) {
  const absl::Time now = clock_->Now();
  const bool expired = job->traits().deadline <= now;
  absl::MutexLock lock(&mutex_);
  if (expired || !refusal_.ok()) {
    queue_.Remove(*job);  // it may have been expected
    return expired ? Expired() : refusal_;
  }
  const absl::Status taken = queue_.Push(std::move(job), now);
  if (taken.ok()) lookout_.Arrived();
  return taken;
}

absl::Status Scheduler::Expect(const Job& job) {
  if (job.traits().deadline <= clock_->Now()) return Expired();
  absl::MutexLock lock(&mutex_);
  if (!refusal_.ok()) return refusal_;
  return queue_.Expect(job);
}

void Scheduler::Forget(const Job& job) {
  JobPtr removed;  // let go of after the lock: it may be the last owner
  absl::MutexLock lock(&mutex_);
  removed = queue_.Remove(job);
}

std::vector<JobPtr> Scheduler::TakeBatch() {
  for (;;) {
    std::optional<FairQueue::Batch> batch = NextBatch();
    if (!batch.has_value()) return {};
    Finish(batch->expired, Expired());
    if (!batch->jobs.empty()) return std::move(batch->jobs);
  }
}

bool Scheduler::LookOut() {
  bool lone;
  {
    absl::MutexLock lock(&mutex_);
    if (!queue_.empty() || !refusal_.ok() || !lookout_.Begin()) return false;
    lone = LoneCaller();
  }
  lookout_.Look(/*take_tasks=*/lone);
  return true;
}

std::optional<FairQueue::Batch> Scheduler::NextBatch() {
  const bool looked = options_.lookout > absl::ZeroDuration() && LookOut();
  absl::MutexLock lock(&mutex_);
  if (looked) lookout_.End();
  mutex_.Await(absl::Condition(this, &Scheduler::WorkToStartOrClosed));
  if (queue_.empty()) return std::nullopt;
  if (options_.batch_delay > absl::ZeroDuration()) HoldBack();
  const absl::Time now = clock_->Now();
  FairQueue::Batch batch = queue_.Take({.jobs = options_.max_batch_jobs,
                                        .tokens = options_.max_batch_tokens,
                                        .cost = options_.max_batch_cost,
                                        .sequences = options_.max_batch_sequences},
                                       now, consecutive_large_ >= options_.max_consecutive_large);
  if (!batch.jobs.empty()) {
    CountLoneJobs(batch, now);
    consecutive_large_ = batch.large ? consecutive_large_ + 1 : 0;
    more_until_ = batch.jobs.size() > 1 ? now + options_.batch_delay : absl::InfinitePast();
    pace_.Start(static_cast<double>(batch.cost), now);
  }
  return batch;
}

void Scheduler::CountLoneJobs(const FairQueue::Batch& batch, absl::Time now) {
  if (batch.jobs.size() > 1 || !queue_.empty()) {
    lone_jobs_ = 0;
  } else if (pace_.running() > 0) {
    lone_jobs_ = std::max(lone_jobs_ - kLoneJobsLost, 0);
  } else {
    lone_jobs_ = std::min(lone_jobs_ + 1, kLoneJobs);
  }
  // Of callers who come more seldom nothing would be seen before readers sleep again.
  if (LoneCaller() && now - last_start_ <= options_.lookout) KeepReadersAwake(options_.lookout);
  last_start_ = now;
}

bool Scheduler::LightWorkCollects() const {
  const auto light = static_cast<double>(options_.light_cost);
  return pace_.running() >= kLightBatches && pace_.cost_running() < pace_.running() * light && queue_.cost() < light &&
         !NothingToWaitFor();
}

void Scheduler::HoldBack() {
  const absl::Time latest = queue_.oldest() + options_.batch_delay;
  clock_->AwaitWithDeadline(&mutex_, absl::Condition(this, &Scheduler::NothingRunsOrToWaitFor), latest);
  if (pace_.running() > 0 || NothingToWaitFor()) return;
  const absl::Time until = std::min(latest, more_until_);
  if (clock_->Now() < until) {
    clock_->AwaitWithDeadline(&mutex_, absl::Condition(this, &Scheduler::NothingToWaitFor), until);
  }
}

bool Scheduler::NothingToWaitFor() const {
  return !refusal_.ok() || queue_.empty() || queue_.jobs() >= options_.max_batch_jobs ||
         queue_.tokens() >= options_.max_batch_tokens || queue_.sequences() >= options_.max_batch_sequences ||
         queue_.cost() >= static_cast<double>(options_.max_batch_cost);
}

absl::Time Scheduler::ExpireOverdue() {
  std::vector<JobPtr> overdue;
  absl::Time next;
  {
    absl::MutexLock lock(&mutex_);
    overdue = queue_.TakeExpired(clock_->Now(), kExpiredPerSweep);
    next = queue_.next_deadline();
  }
  Finish(overdue, Expired());
  return next;
}

void Scheduler::BatchDone() {
  const absl::Time now = clock_->Now();
  absl::MutexLock lock(&mutex_);
  pace_.Finish(now);
}

void Scheduler::BatchStopped() {
  const absl::Time now = clock_->Now();
  absl::MutexLock lock(&mutex_);
  pace_.Stop(now);
}

void Scheduler::Close(const absl::Status& refusal) {
  absl::MutexLock lock(&mutex_);
  refusal_.Update(refusal);
}

void Scheduler::Abort(const absl::Status& status) {
  std::vector<JobPtr> waiting;
  {
    absl::MutexLock lock(&mutex_);
    waiting = queue_.TakeAll();
  }
  Finish(waiting, status);
}

bool Scheduler::Drain(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  return clock_->AwaitWithDeadline(&mutex_, absl::Condition(this, &Scheduler::Drained), deadline);
}

absl::Status Scheduler::refusal() const {
  absl::MutexLock lock(&mutex_);
  return refusal_;
}

double Scheduler::outstanding_cost() const {
  absl::MutexLock lock(&mutex_);
  return queue_.cost() + pace_.cost_running();
}

int64_t Scheduler::queued_jobs() const {
  absl::MutexLock lock(&mutex_);
  return queue_.jobs();
}

int64_t Scheduler::queued_bytes() const {
  absl::MutexLock lock(&mutex_);
  return queue_.bytes();
}

int64_t Scheduler::expected_jobs() const {
  absl::MutexLock lock(&mutex_);
  return queue_.expected_jobs();
}

int64_t Scheduler::expected_bytes() const {
  absl::MutexLock lock(&mutex_);
  return queue_.expected_bytes();
}

absl::Duration Scheduler::RetryAfter() const {
  absl::MutexLock lock(&mutex_);
  const std::optional<absl::Duration> time =
      pace_.TimeFor(queue_.cost() + queue_.expected_cost() + pace_.cost_running());
  return std::clamp(time.value_or(kFirstRetry), kLeastRetry, kMostRetry);
}

}  // namespace tessera
