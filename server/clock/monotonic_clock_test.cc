#include "server/clock/monotonic_clock.h"

#include <chrono>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using SteadyClock = std::chrono::steady_clock;

TEST(MonotonicClock, GoesByTheSteadyClock) {
  MonotonicClock clock;
  const SteadyClock::time_point a = SteadyClock::now();
  const absl::Time first = clock.Now();
  const SteadyClock::time_point b = SteadyClock::now();
  while (SteadyClock::now() - b < std::chrono::milliseconds(2)) {
  }
  const SteadyClock::time_point c = SteadyClock::now();
  const absl::Time second = clock.Now();
  const SteadyClock::time_point d = SteadyClock::now();
  EXPECT_GE(second - first, absl::FromChrono(c - b));
  EXPECT_LE(second - first, absl::FromChrono(d - a));
}

TEST(MonotonicClock, PastDeadlineReturnsAtOnce) {
  absl::Mutex mutex;
  bool flag = false;
  absl::MutexLock lock(&mutex);
  EXPECT_FALSE(Clock::Real()->AwaitWithDeadline(&mutex, absl::Condition(&flag), Clock::Real()->Now()));
  EXPECT_FALSE(Clock::Real()->AwaitWithDeadline(&mutex, absl::Condition(&flag), absl::InfinitePast()));
}

TEST(MonotonicClock, ConditionEndsTheWait) {
  for (const absl::Time deadline : {absl::InfiniteFuture(), Clock::Real()->Now() + absl::Hours(1000000)}) {
    absl::Mutex mutex;
    bool flag = false;
    std::thread setter([&] {
      absl::MutexLock lock(&mutex);
      flag = true;
    });
    {
      absl::MutexLock lock(&mutex);
      EXPECT_TRUE(Clock::Real()->AwaitWithDeadline(&mutex, absl::Condition(&flag), deadline));
    }
    setter.join();
  }
}

// Many waiters, late ones with earlier deadlines among them: each returns, and none before its time.
TEST(MonotonicClock, EachWaitLastsUntilItsDeadline) {
  MonotonicClock clock;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 8; ++i) {
    waiters.emplace_back([&clock, i] {
      absl::Mutex mutex;
      bool flag = false;
      absl::MutexLock lock(&mutex);
      for (int round = 0; round < 50; ++round) {
        const SteadyClock::time_point start = SteadyClock::now();
        const absl::Duration wait = absl::Microseconds((i * 37 + round * 101) % 500);
        EXPECT_FALSE(clock.AwaitWithDeadline(&mutex, absl::Condition(&flag), clock.Now() + wait));
        EXPECT_GE(absl::FromChrono(SteadyClock::now() - start), wait);
      }
    });
  }
  for (std::thread& waiter : waiters) waiter.join();
}

}  // namespace
}  // namespace tessera
