// The system's monotonic clock.
#ifndef TESSERA_SERVER_CLOCK_MONOTONIC_CLOCK_H_
#define TESSERA_SERVER_CLOCK_MONOTONIC_CLOCK_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/time/time.h"
#include "server/clock/waking_clock.h"

namespace tessera {

// Begins near the system's time of day and goes on by std::chrono::steady_clock. A thread, started with the first wait
// and asleep until the earliest deadline, wakes those that wait. Thread-safe.
class MonotonicClock final : public WakingClock {
 public:
  MonotonicClock();
  // REQUIRES: nobody waits.
  ~MonotonicClock() override;

  absl::Time Now() const override;

 private:
  void OnWait(absl::Time deadline) override;
  void Run();
  std::chrono::steady_clock::time_point ToSteady(absl::Time time) const;

  const std::chrono::steady_clock::time_point steady_start_;
  const absl::Time start_;
  // The standard library's, for they can wait by the monotonic clock.
  std::mutex mutex_;
  std::condition_variable earlier_;
  absl::Time armed_ = absl::InfiniteFuture();  // when the thread wakes up next; guarded by mutex_
  bool stopping_ = false;                      // likewise
  std::thread thread_;                         // likewise
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CLOCK_MONOTONIC_CLOCK_H_
