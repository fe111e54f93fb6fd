#include "server/clock/clock.h"

#include "absl/time/clock.h"
#include "server/clock/monotonic_clock.h"

namespace tessera {

absl::Time Clock::FromSystem(absl::Time time) const { return Now() + (time - absl::Now()); }

Clock* Clock::Real() {
  static MonotonicClock* const clock = new MonotonicClock;
  return clock;
}

}  // namespace tessera
