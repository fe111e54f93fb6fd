#include "server/clock/fake_clock.h"

#include <vector>

namespace tessera {

absl::Time FakeClock::Now() const {
  absl::MutexLock lock(&mutex_);
  return now_;
}

// The waiter's mutex is locked before ours here, and after it has been released in Advance, so the two never nest the
// other way round. A waiter that Advance is waking stays registered until Advance has let go of the waiter's mutex, for
// which it must let go of it itself; so it looks at its condition once more afterwards.
bool FakeClock::AwaitWithDeadline(absl::Mutex* mutex, const absl::Condition& condition,
                                  absl::Time deadline) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  for (;;) {
    std::list<Waiter>::iterator waiter;
    {
      absl::MutexLock lock(&mutex_);
      waiter = waiters_.insert(waiters_.end(), Waiter{mutex, deadline});
    }
    auto due_or_met = [&] { return condition.Eval() || Now() >= deadline; };
    mutex->Await(absl::Condition(&due_or_met));
    mutex->Unlock();
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](bool* waking) { return !*waking; }, &waiter->waking));
      waiters_.erase(waiter);
    }
    mutex->Lock();
    if (condition.Eval()) return true;
    if (Now() >= deadline) return false;
  }
}

void FakeClock::Advance(absl::Duration by) {
  std::vector<Waiter*> due;
  {
    absl::MutexLock lock(&mutex_);
    now_ += by;
    for (Waiter& waiter : waiters_) {
      if (waiter.deadline > now_) continue;
      waiter.waking = true;
      due.push_back(&waiter);
    }
  }
  // A mutex evaluates the conditions of its waiters when it is unlocked.
  for (Waiter* waiter : due) {
    waiter->mutex->Lock();
    waiter->mutex->Unlock();
    absl::MutexLock lock(&mutex_);
    waiter->waking = false;
  }
}

void FakeClock::AwaitWaiter(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  auto waits = [this, deadline]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    for (const Waiter& waiter : waiters_) {
      if (waiter.deadline == deadline) return true;
    }
    return false;
  };
  mutex_.Await(absl::Condition(&waits));
}

}  // namespace tessera
