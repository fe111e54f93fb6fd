#include "server/scheduler/scheduler_group.h"

#include <algorithm>
#include <utility>

#include "absl/base/internal/raw_logging.h"

namespace tessera {

SchedulerGroup::SchedulerGroup(const SchedulerOptions& options, size_t devices, Clock* clock) {
  ABSL_RAW_CHECK(devices >= 1, "a group has a device");
  for (size_t device = 0; device < devices; ++device) {
    schedulers_.push_back(std::make_unique<Scheduler>(options, clock));
  }
}

absl::Status SchedulerGroup::Enqueue(const JobPtr& job) {
  if (schedulers_.size() == 1 || job->traits().device != Job::kAnyDevice) return OnlyOneOf(job)->Enqueue(job);
  std::vector<std::pair<double, Scheduler*>> by_cost;
  by_cost.reserve(schedulers_.size());
  const absl::MutexLock lock(&placing_);
  for (const auto& scheduler : schedulers_) by_cost.emplace_back(scheduler->outstanding_cost(), scheduler.get());
  std::stable_sort(by_cost.begin(), by_cost.end(), [](const auto& a, const auto& b) { return a.first < b.first; });

  absl::Status refusal;
  for (const auto& [cost, scheduler] : by_cost) {
    // Before the job is in the queue: whoever ends it there finds out where it is.
    job->scheduler_.store(scheduler);
    absl::Status status = scheduler->Enqueue(job);
    const bool next_may_take_it = absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
    if (!next_may_take_it) return status;
    if (refusal.ok() || absl::IsUnavailable(refusal)) refusal = std::move(status);
  }
  return refusal;
}

absl::Status SchedulerGroup::Expect(const JobPtr& job) { return OnlyOneOf(job)->Expect(*job); }

Scheduler* SchedulerGroup::OnlyOneOf(const JobPtr& job) {
  const int device = schedulers_.size() == 1 && job->traits().device == Job::kAnyDevice ? 0 : job->traits().device;
  ABSL_RAW_CHECK(device >= 0 && static_cast<size_t>(device) < schedulers_.size(),
                 "a job's device is one of the group's");
  Scheduler* const scheduler = &of(static_cast<size_t>(device));
  job->scheduler_.store(scheduler);
  return scheduler;
}

void SchedulerGroup::Forget(const Job& job) {
  if (Scheduler* const scheduler = job.scheduler_.load(); scheduler != nullptr) scheduler->Forget(job);
}

absl::Status SchedulerGroup::Refusal(const Job& job) const { return job.scheduler_.load()->refusal(); }

void SchedulerGroup::Close(const absl::Status& refusal) {
  for (const auto& scheduler : schedulers_) scheduler->Close(refusal);
}

void SchedulerGroup::Abort(const absl::Status& status) {
  for (const auto& scheduler : schedulers_) scheduler->Abort(status);
}

int64_t SchedulerGroup::queued_jobs() const {
  int64_t jobs = 0;
  for (const auto& scheduler : schedulers_) jobs += scheduler->queued_jobs();
  return jobs;
}

int64_t SchedulerGroup::queued_bytes() const {
  int64_t bytes = 0;
  for (const auto& scheduler : schedulers_) bytes += scheduler->queued_bytes();
  return bytes;
}

int64_t SchedulerGroup::expected_jobs() const {
  int64_t jobs = 0;
  for (const auto& scheduler : schedulers_) jobs += scheduler->expected_jobs();
  return jobs;
}

int64_t SchedulerGroup::expected_bytes() const {
  int64_t bytes = 0;
  for (const auto& scheduler : schedulers_) bytes += scheduler->expected_bytes();
  return bytes;
}

absl::Duration SchedulerGroup::RetryAfter() const {
  absl::Duration shortest = absl::InfiniteDuration();
  for (const auto& scheduler : schedulers_) {
    if (!scheduler->closed()) shortest = std::min(shortest, scheduler->RetryAfter());
  }
  return shortest == absl::InfiniteDuration() ? schedulers_.front()->RetryAfter() : shortest;
}

}  // namespace tessera
