// Time as the load tester sees it, so that a simulated target can run hours of load in no time.
#ifndef TESSERA_CLIENT_CPP_LOAD_LOAD_CLOCK_H_
#define TESSERA_CLIENT_CPP_LOAD_LOAD_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tessera::load {

// Monotonic; the origin is arbitrary, the unit a nanosecond or finer. Thread-safe.
class LoadClock {
 public:
  virtual ~LoadClock() = default;

  virtual absl::Duration Now() const = 0;

  // Returns once Now() >= `time`, and no later than the operating system can help.
  virtual void SleepUntil(absl::Duration time) = 0;

  // Returns once `condition` holds. `mutex` must be held and guards what the condition reads.
  virtual void Await(absl::Mutex* mutex, const absl::Condition& condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;

  // The steady clock of this machine. Lives for ever.
  static LoadClock* Real();
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_LOAD_CLOCK_H_
