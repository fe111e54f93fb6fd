#include "server/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stop_token>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "server/request/device_job.h"

namespace tessera {
namespace {

absl::Status DeviceLost() { return absl::UnavailableError("device lost"); }

}  // namespace

// What the threads work on.
class Engine::Core {
 public:
  Core(const EngineOptions& options, std::unique_ptr<BatchRunner> runner, Scheduler* scheduler, Clock* clock,
       EngineObserver* observer, LossFns on_loss)
      : options_(options),
        runner_(std::move(runner)),
        info_(runner_->info()),
        scheduler_(scheduler),
        clock_(clock),
        observer_(observer),
        on_loss_(std::move(on_loss)),
        slots_(info_.slots) {
    ABSL_RAW_CHECK(options.slowest_pace > 0, "a device has a pace");
    ABSL_RAW_CHECK(options.watchdog_period > absl::ZeroDuration(), "a watchdog has a period");
  }

  int slots() const { return info_.slots; }
  // The body of a slot's thread.
  void RunSlot(int slot);
  // The body of the watchdog's thread.
  void Watch();
  // Closes the scheduler and waits for the slots. Returns those whose threads may be joined; the others are abandoned.
  std::vector<bool> Stop();

 private:
  struct Slot {
    std::vector<DeviceJobPtr> in_flight;     // the batch that the slot is busy with
    absl::Span<const DeviceJobPtr> running;  // those of the call of Device::Run that is under way
    std::stop_source stop;                   // of that call
    int64_t looks_left = 0;                  // of the watchdog, before that call hangs
    bool hung = false;                       // that call has hung
    bool ended = false;                      // the thread is past everything that the engine borrows
  };

  // How a batch, or a call of Device::Run, came to its end.
  enum class End {
    kDone,
    kStopped,    // nobody wanted it any more
    kAbandoned,  // after the engine: nothing borrowed may be touched any more
  };

  static constexpr int64_t kNeverHangs = std::numeric_limits<int64_t>::max();

  // Moves a batch's jobs to kRunning; those that have ended or expired are dropped.
  std::vector<DeviceJobPtr> Launchable(std::vector<JobPtr> batch);
  // False where the job has ended, or has expired and so is ended here.
  bool StillWanted(Job& job, Job::State where);

  End RunBatch(int slot, const std::vector<DeviceJobPtr>& jobs);
  End RunAndFinish(int slot, absl::Span<const DeviceJobPtr> jobs);
  End RunOnDevice(int slot, absl::Span<const DeviceJobPtr> jobs, BatchOutcome* outcome);

  // Waits for the watchdog's next look; false where there will be none. `idle` counts the looks with nothing on the
  // device.
  bool AwaitLook(int64_t* idle);
  // Ends the jobs that run and whose deadline has passed.
  void ExpireRunning();
  // Asks the device to stop what nobody wants any more.
  void StopUnwanted();
  // Looks that a call of Device::Run may last.
  int64_t LooksFor(absl::Span<const DeviceJobPtr> jobs) const;
  // Counts a look for every call that is under way, and marks those that hang; returns whether there are new ones.
  bool MarkHung();
  // Ends everything, once.
  void Lose(const absl::Status& why);

  bool AnyRuns() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AnyRunsOrStopping() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_watch_ || AnyRuns(); }
  bool AllEnded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AllEndedOrHung() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const EngineOptions options_;
  const std::unique_ptr<BatchRunner> runner_;
  const DeviceInfo info_;
  Scheduler* const scheduler_;
  Clock* const clock_;
  EngineObserver* const observer_;
  const LossFns on_loss_;

  absl::Mutex mutex_;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;  // the engine is gone, with a slot still in Device::Run
  bool stop_watch_ ABSL_GUARDED_BY(mutex_) = false;
};

void Engine::Core::RunSlot(int slot) {
  for (std::vector<JobPtr> batch; !(batch = scheduler_->TakeBatch()).empty();) {
    const std::vector<DeviceJobPtr> jobs = Launchable(std::move(batch));
    switch (jobs.empty() ? End::kStopped : RunBatch(slot, jobs)) {
      case End::kDone:
        scheduler_->BatchDone();
        break;
      case End::kStopped:
        scheduler_->BatchStopped();
        break;
      case End::kAbandoned:
        return;
    }
  }
  absl::MutexLock lock(&mutex_);
  slots_[slot].ended = true;
}

std::vector<DeviceJobPtr> Engine::Core::Launchable(std::vector<JobPtr> batch) {
  std::vector<DeviceJobPtr> jobs;
  jobs.reserve(batch.size());
  for (JobPtr& job : batch) {
    if (!StillWanted(*job, Job::State::kBatched)) continue;
    if (job->Advance(Job::State::kBatched, Job::State::kRunning)) {
      jobs.push_back(std::static_pointer_cast<DeviceJob>(std::move(job)));
    } else {
      observer_->OnDropped(absl::StatusCode::kCancelled, Job::State::kBatched);
    }
  }
  return jobs;
}

bool Engine::Core::StillWanted(Job& job, Job::State where) {
  const bool ended = job.state() == Job::State::kDone;
  if (!ended && clock_->Now() < job.traits().deadline) return true;
  const bool expired = !ended && job.Finish(absl::DeadlineExceededError("the deadline passed before the call was run"));
  observer_->OnDropped(expired ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kCancelled, where);
  return false;
}

Engine::Core::End Engine::Core::RunBatch(int slot, const std::vector<DeviceJobPtr>& jobs) {
  bool lost;
  {
    absl::MutexLock lock(&mutex_);
    lost = lost_;
    if (!lost) slots_[slot].in_flight = jobs;
  }
  if (lost) {
    for (const DeviceJobPtr& job : jobs) job->Finish(DeviceLost());
    return End::kStopped;
  }
  const End end = RunAndFinish(slot, jobs);
  std::vector<DeviceJobPtr> done;  // let go of after the lock; `jobs` keeps them until then
  absl::MutexLock lock(&mutex_);
  done.swap(slots_[slot].in_flight);
  return end;
}

Engine::Core::End Engine::Core::RunAndFinish(int slot, absl::Span<const DeviceJobPtr> jobs) {
  const absl::Time launched = clock_->Now();
  BatchOutcome outcome;
  const End end = RunOnDevice(slot, jobs, &outcome);
  if (end == End::kAbandoned) return end;
  if (outcome.sticky) {
    Lose(outcome.status);
  } else if (end == End::kStopped) {
    return end;  // every job has ended already
  } else if (outcome.status.ok()) {
    const DeviceJob::Run run = {launched, clock_->Now(), static_cast<int64_t>(jobs.size())};
    for (const DeviceJobPtr& job : jobs) job->Complete(run);
  } else if (jobs.size() == 1) {
    jobs[0]->Finish(outcome.status);
  } else {
    for (const DeviceJobPtr& job : jobs) {
      if (!StillWanted(*job, Job::State::kRunning)) continue;
      if (RunAndFinish(slot, {&job, 1}) == End::kAbandoned) return End::kAbandoned;
    }
  }
  return End::kDone;
}

Engine::Core::End Engine::Core::RunOnDevice(int slot, absl::Span<const DeviceJobPtr> jobs, BatchOutcome* outcome) {
  const std::stop_source stop;
  {
    absl::MutexLock lock(&mutex_);
    Slot& call = slots_[slot];
    call.running = jobs;
    call.stop = stop;
    call.looks_left = LooksFor(jobs);
  }
  *outcome = runner_->Run(slot, jobs, stop.get_token());
  {
    absl::MutexLock lock(&mutex_);
    Slot& call = slots_[slot];
    call.running = {};
    call.hung = false;
    if (abandoned_) return End::kAbandoned;
  }
  int64_t tokens = 0;
  for (const DeviceJobPtr& job : jobs) tokens += job->traits().tokens;
  observer_->OnBatch(info_, jobs[0]->dtype(), static_cast<int64_t>(jobs.size()), tokens, *outcome);
  return stop.stop_requested() ? End::kStopped : End::kDone;
}

int64_t Engine::Core::LooksFor(absl::Span<const DeviceJobPtr> jobs) const {
  if (options_.hang_timeout == absl::ZeroDuration()) return kNeverHangs;
  double cost = 0;
  for (const DeviceJobPtr& job : jobs) cost += static_cast<double>(job->traits().cost);
  const absl::Duration longest = options_.hang_timeout + absl::Seconds(cost / options_.slowest_pace);
  const double looks =
      std::ceil(absl::FDivDuration(longest, options_.watchdog_period)) + 1;  // the first may come at once
  return looks < 1e18 ? static_cast<int64_t>(looks) : kNeverHangs;
}

void Engine::Core::Watch() {
  for (int64_t idle = 0; AwaitLook(&idle);) {
    const absl::Time now = clock_->Now();
    while (scheduler_->ExpireOverdue() <= now) {
    }
    ExpireRunning();
    StopUnwanted();
    if (MarkHung()) Lose(absl::InternalError("a batch has hung on the device"));
  }
}

bool Engine::Core::AwaitLook(int64_t* idle) {
  absl::MutexLock lock(&mutex_);
  *idle = AnyRuns() ? 0 : *idle + 1;
  if (*idle * options_.watchdog_period > kWatchedIdle) {
    mutex_.Await(absl::Condition(this, &Core::AnyRunsOrStopping));
    *idle = 0;
  }
  const absl::Time next = clock_->Now() + options_.watchdog_period;
  return !clock_->AwaitWithDeadline(&mutex_, absl::Condition(&stop_watch_), next);
}

void Engine::Core::ExpireRunning() {
  const absl::Time now = clock_->Now();
  std::vector<DeviceJobPtr> expired;  // finished after the lock
  {
    absl::MutexLock lock(&mutex_);
    for (const Slot& slot : slots_) {
      for (const DeviceJobPtr& job : slot.running) {
        if (job->traits().deadline <= now && job->state() != Job::State::kDone) expired.push_back(job);
      }
    }
  }
  for (const DeviceJobPtr& job : expired) {
    job->Finish(absl::DeadlineExceededError("the deadline passed while the call was run"));
  }
}

void Engine::Core::StopUnwanted() {
  const auto ended = [](const DeviceJobPtr& job) { return job->state() == Job::State::kDone; };
  std::vector<std::stop_source> stops;  // what hears of them is the device's, and runs with no lock held
  {
    absl::MutexLock lock(&mutex_);
    for (const Slot& slot : slots_) {
      if (!slot.running.empty() && std::all_of(slot.running.begin(), slot.running.end(), ended)) {
        stops.push_back(slot.stop);
      }
    }
  }
  for (std::stop_source& stop : stops) stop.request_stop();
}

bool Engine::Core::MarkHung() {
  absl::MutexLock lock(&mutex_);
  bool any = false;
  for (Slot& slot : slots_) {
    if (slot.running.empty() || slot.hung || slot.looks_left == kNeverHangs) continue;
    if (--slot.looks_left > 0) continue;
    slot.hung = any = true;
  }
  return any;
}

void Engine::Core::Lose(const absl::Status& why) {
  std::vector<DeviceJobPtr> in_flight;
  {
    absl::MutexLock lock(&mutex_);
    if (lost_) return;
    lost_ = true;
    for (const Slot& slot : slots_) in_flight.insert(in_flight.end(), slot.in_flight.begin(), slot.in_flight.end());
  }
  on_loss_.on_lost(DeviceLost());
  scheduler_->Close(DeviceLost());
  for (const DeviceJobPtr& job : in_flight) job->Finish(DeviceLost());
  scheduler_->Abort(DeviceLost());
  on_loss_.on_fatal(why);
}

std::vector<bool> Engine::Core::Stop() {
  scheduler_->Close();
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &Core::AllEndedOrHung));
  abandoned_ = !mutex_.AwaitWithTimeout(absl::Condition(this, &Core::AllEnded), kHungSlotGrace);
  stop_watch_ = true;
  std::vector<bool> ended;
  ended.reserve(slots_.size());
  for (const Slot& slot : slots_) ended.push_back(slot.ended);
  return ended;
}

bool Engine::Core::AnyRuns() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.running.empty(); });
}

bool Engine::Core::AllEnded() const {
  return std::all_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.ended; });
}

bool Engine::Core::AllEndedOrHung() const {
  return std::all_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.ended || slot.hung; });
}

Engine::Engine(const EngineOptions& options, std::unique_ptr<BatchRunner> runner, Scheduler* scheduler, Clock* clock,
               EngineObserver* observer, LossFns on_loss)
    : core_(std::make_shared<Core>(options, std::move(runner), scheduler, clock, observer, std::move(on_loss))) {
  for (int slot = 0; slot < core_->slots(); ++slot) {
    slots_.emplace_back([core = core_, slot] { core->RunSlot(slot); });
  }
  watchdog_ = std::thread([core = core_] { core->Watch(); });
}

Engine::~Engine() {
  const std::vector<bool> ended = core_->Stop();
  watchdog_.join();
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (ended[slot]) {
      slots_[slot].join();
    } else {
      slots_[slot].detach();
    }
  }
}

}  // namespace tessera
