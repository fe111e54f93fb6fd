// A clock that wakes those who wait for a time itself.
#ifndef TESSERA_SERVER_CLOCK_WAKING_CLOCK_H_
#define TESSERA_SERVER_CLOCK_WAKING_CLOCK_H_

#include <list>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/clock/clock.h"

namespace tessera {

// absl::Mutex knows no clock but the system's, so a waiter waits for its condition without a time, and whoever moves
// the clock on, or notices that it has moved, wakes those that are due. Thread-safe.
class WakingClock : public Clock {
 public:
  bool AwaitWithDeadline(absl::Mutex* mutex, const absl::Condition& condition, absl::Time deadline) final
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Blocks, in real time, until some thread waits for exactly `deadline`.
  void AwaitWaiter(absl::Time deadline);

 protected:
  WakingClock() = default;
  WakingClock(const WakingClock&) = delete;
  WakingClock& operator=(const WakingClock&) = delete;

  // After this returns, every waiter whose deadline has come is on its way out of AwaitWithDeadline. Returns the
  // earliest deadline of the others that it has met, InfiniteFuture where there are none; for those that come later
  // OnWait is called. REQUIRES: the caller holds no mutex that a waiter waits with.
  absl::Time WakeDue();

 private:
  struct Waiter {
    absl::Mutex* mutex;
    absl::Time deadline;
    bool waking = false;  // WakeDue is about to lock `mutex`, which must outlive that
  };

  // Someone is about to wait for `deadline`, where WakeDue meets him from now on. Called with the waiter's mutex held.
  virtual void OnWait(absl::Time /*deadline*/) {}

  absl::Mutex mutex_;
  std::list<Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CLOCK_WAKING_CLOCK_H_
