// A clock that stands still until a test moves it.
#ifndef TESSERA_SERVER_CLOCK_FAKE_CLOCK_H_
#define TESSERA_SERVER_CLOCK_FAKE_CLOCK_H_

#include <list>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/clock/clock.h"

namespace tessera {

// Thread-safe. After Advance returns, every waiter whose deadline has come is on its way out of AwaitWithDeadline: none
// sleeps on. A test that must not move time before a thread waits calls AwaitWaiter first.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(absl::Time start = absl::UnixEpoch() + absl::Hours(24)) : now_(start) {}
  FakeClock(const FakeClock&) = delete;
  FakeClock& operator=(const FakeClock&) = delete;

  absl::Time Now() const override;
  bool AwaitWithDeadline(absl::Mutex* mutex, const absl::Condition& condition, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Moves time on. REQUIRES: by >= 0; the caller holds no mutex that a waiter waits with.
  void Advance(absl::Duration by);

  // Blocks, in real time, until some thread waits for exactly `deadline`.
  void AwaitWaiter(absl::Time deadline);

 private:
  struct Waiter {
    absl::Mutex* mutex;
    absl::Time deadline;
    bool waking = false;  // Advance is about to lock `mutex`, which must outlive that
  };

  mutable absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_);
  std::list<Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CLOCK_FAKE_CLOCK_H_
