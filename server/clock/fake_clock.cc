#include "server/clock/fake_clock.h"

namespace tessera {

absl::Time FakeClock::Now() const {
  absl::MutexLock lock(&mutex_);
  return now_;
}

void FakeClock::Advance(absl::Duration by) {
  {
    absl::MutexLock lock(&mutex_);
    now_ += by;
  }
  WakeDue();
}

}  // namespace tessera
