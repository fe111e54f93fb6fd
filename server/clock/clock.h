// Time as the server sees it, so that tests can drive it.
#ifndef TESSERA_SERVER_CLOCK_CLOCK_H_
#define TESSERA_SERVER_CLOCK_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tessera {

// Thread-safe. Real() lives for ever; a clock outlives everything that holds it.
//
// A clock's times never jump and never run backwards, whatever is done to the system's time: they may be compared with
// one another and subtracted, but are no time of day.
class Clock {
 public:
  virtual ~Clock() = default;

  virtual absl::Time Now() const = 0;

  // Waits until `condition` holds or Now() reaches `deadline`; returns whether the condition holds. `mutex` must be
  // held and guards what the condition reads.
  virtual bool AwaitWithDeadline(absl::Mutex* mutex, const absl::Condition& condition, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;

  // The system's monotonic clock.
  static Clock* Real();
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CLOCK_CLOCK_H_
