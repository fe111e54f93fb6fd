// A clock that stands still until a test moves it.
#ifndef TESSERA_SERVER_CLOCK_FAKE_CLOCK_H_
#define TESSERA_SERVER_CLOCK_FAKE_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/clock/waking_clock.h"

namespace tessera {

// Thread-safe. After Advance returns, every waiter whose deadline has come is on its way out of AwaitWithDeadline: none
// sleeps on. A test that must not move time before a thread waits calls AwaitWaiter first.
class FakeClock final : public WakingClock {
 public:
  explicit FakeClock(absl::Time start = absl::UnixEpoch() + absl::Hours(24)) : now_(start) {}

  absl::Time Now() const override;

  // Moves time on. REQUIRES: by >= 0; the caller holds no mutex that a waiter waits with.
  void Advance(absl::Duration by);

 private:
  mutable absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CLOCK_FAKE_CLOCK_H_
