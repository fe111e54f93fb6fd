#include "client/cpp/load/dispatcher.h"

#include <utility>

namespace tessera::load {
namespace {

// Failures that a load can cause, and a lighter load may not see.
bool CausedByLoad(absl::StatusCode code) {
  return code == absl::StatusCode::kResourceExhausted || code == absl::StatusCode::kDeadlineExceeded ||
         code == absl::StatusCode::kCancelled;
}

}  // namespace

Dispatcher::Dispatcher(Workload* workload, Target* target, LoadClock* clock, Recorder* recorder, int64_t give_up_after,
                       const std::atomic<bool>* interrupted)
    : workload_(workload),
      target_(target),
      clock_(clock),
      recorder_(recorder),
      give_up_after_(give_up_after),
      interrupted_(interrupted) {}

void Dispatcher::Send(absl::Duration due, std::function<void()> then) {
  {
    absl::MutexLock lock(&mutex_);
    ++in_flight_;
    ++open_;
  }
  SendCall(workload_->Next(), due, std::move(then));
}

void Dispatcher::SendOrDrop(absl::Duration due, int64_t max_in_flight) {
  const Call call = workload_->Next();
  bool admitted;
  {
    absl::MutexLock lock(&mutex_);
    admitted = in_flight_ < max_in_flight;
    if (admitted) {
      ++in_flight_;
      ++open_;
    }
  }
  if (admitted) {
    SendCall(call, due, nullptr);
  } else {
    recorder_->RecordDrop(call.shape, due);
  }
}

void Dispatcher::SendCall(const Call& call, absl::Duration due, std::function<void()> then) {
  const absl::Duration sent = clock_->Now();
  target_->Issue(call, [this, shape = call.shape, due, sent, then = std::move(then)](const Answer& answer) {
    recorder_->Record({shape, due, sent, clock_->Now(), answer.status.code(), answer.timing});
    Settle(answer.status);
    if (then) then();
    absl::MutexLock lock(&mutex_);
    --open_;
  });
}

void Dispatcher::Settle(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  --in_flight_;
  hopeless_ = status.ok() || CausedByLoad(status.code()) ? 0 : hopeless_ + 1;
  if (give_up_after_ > 0 && hopeless_ >= give_up_after_ && give_up_status_.ok()) {
    give_up_status_ = status;
    gave_up_.store(true, std::memory_order_relaxed);
  }
}

void Dispatcher::AwaitIdle() {
  absl::MutexLock lock(&mutex_);
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return open_ == 0; };
  clock_->Await(&mutex_, absl::Condition(&idle));
}

int64_t Dispatcher::in_flight() const {
  absl::MutexLock lock(&mutex_);
  return in_flight_;
}

absl::Status Dispatcher::give_up_status() const {
  absl::MutexLock lock(&mutex_);
  return give_up_status_;
}

}  // namespace tessera::load
