#include "client/cpp/load/load_clock.h"

#include <sys/prctl.h>

#include <chrono>
#include <thread>

namespace tessera::load {
namespace {

class SteadyClock : public LoadClock {
 public:
  absl::Duration Now() const override { return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()); }

  void SleepUntil(absl::Duration time) override {
    // Linux rounds a thread's sleeps up by its timer slack, 50 us unless told otherwise.
    thread_local const int slack [[maybe_unused]] = prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    std::this_thread::sleep_until(std::chrono::steady_clock::time_point(absl::ToChronoNanoseconds(time)));
  }

  void Await(absl::Mutex* mutex, const absl::Condition& condition) override { mutex->Await(condition); }
};

}  // namespace

LoadClock* LoadClock::Real() {
  static SteadyClock* const clock = new SteadyClock;
  return clock;
}

}  // namespace tessera::load
