#include "server/clock/monotonic_clock.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace tessera {

using SteadyClock = std::chrono::steady_clock;

MonotonicClock::MonotonicClock() : steady_start_(SteadyClock::now()), start_(absl::Now()) {}

MonotonicClock::~MonotonicClock() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  earlier_.notify_one();
  if (thread_.joinable()) thread_.join();
}

absl::Time MonotonicClock::Now() const { return start_ + absl::FromChrono(SteadyClock::now() - steady_start_); }

SteadyClock::time_point MonotonicClock::ToSteady(absl::Time time) const {
  return steady_start_ + absl::ToChronoNanoseconds(time - start_) + std::chrono::nanoseconds(1);  // rounded up
}

void MonotonicClock::OnWait(absl::Time deadline) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (deadline >= armed_) return;
    armed_ = deadline;
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  }
  earlier_.notify_one();
}

void MonotonicClock::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (armed_ == absl::InfiniteFuture()) {
      earlier_.wait(lock);
      continue;
    }
    if (Now() < armed_) {
      // Years at most: a time beyond the steady clock's range would be in the past.
      earlier_.wait_until(lock, ToSteady(std::min(armed_, Now() + absl::Hours(24))));
      continue;
    }
    armed_ = absl::InfiniteFuture();
    lock.unlock();
    const absl::Time next = WakeDue();
    lock.lock();
    armed_ = std::min(armed_, next);
  }
}

}  // namespace tessera
