#include "server/clock/clock.h"

#include "server/clock/monotonic_clock.h"

namespace tessera {

Clock* Clock::Real() {
  static MonotonicClock* const clock = new MonotonicClock;
  return clock;
}

}  // namespace tessera
