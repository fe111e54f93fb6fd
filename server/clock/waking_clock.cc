#include "server/clock/waking_clock.h"

#include <algorithm>
#include <vector>

namespace tessera {

// The waiter's mutex is locked before ours here, and after it has been released in WakeDue, so the two never nest the
// other way round. A waiter that WakeDue is waking stays registered until WakeDue has let go of the waiter's mutex, for
// which it must let go of it itself; so it looks at its condition once more afterwards. A waiter that WakeDue missed
// has registered later, and so finds the time that WakeDue went by, or a later one, when it looks at it.
bool WakingClock::AwaitWithDeadline(absl::Mutex* mutex, const absl::Condition& condition,
                                    absl::Time deadline) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  for (;;) {
    std::list<Waiter>::iterator waiter;
    {
      absl::MutexLock lock(&mutex_);
      waiter = waiters_.insert(waiters_.end(), Waiter{mutex, deadline});
    }
    OnWait(deadline);
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

absl::Time WakingClock::WakeDue() {
  const absl::Time now = Now();
  absl::Time next = absl::InfiniteFuture();
  std::vector<Waiter*> due;
  {
    absl::MutexLock lock(&mutex_);
    for (Waiter& waiter : waiters_) {
      if (waiter.deadline > now) {
        next = std::min(next, waiter.deadline);
        continue;
      }
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
  return next;
}

void WakingClock::AwaitWaiter(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  auto waits = [this, deadline]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return std::any_of(waiters_.begin(), waiters_.end(),
                       [&](const Waiter& waiter) { return waiter.deadline == deadline; });
  };
  mutex_.Await(absl::Condition(&waits));
}

}  // namespace tessera
