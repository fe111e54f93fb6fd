#include "server/clock/clock.h"

#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "server/clock/fake_clock.h"

namespace tessera {
namespace {

TEST(FakeClock, StandsStillUntilAdvanced) {
  FakeClock clock;
  const absl::Time start = clock.Now();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(absl::Milliseconds(3));
  EXPECT_EQ(clock.Now(), start + absl::Milliseconds(3));
}

TEST(FakeClock, AdvanceWakesThoseThatAreDueAndNoOthers) {
  FakeClock clock;
  const absl::Time start = clock.Now();
  absl::Mutex mutex;
  bool flag = false;
  bool early_done = false;
  bool late_done = false;
  auto wait = [&](absl::Duration delay, bool* done) {
    absl::MutexLock lock(&mutex);
    EXPECT_FALSE(clock.AwaitWithDeadline(&mutex, absl::Condition(&flag), start + delay));
    *done = true;
  };
  std::thread early(wait, absl::Seconds(1), &early_done);
  std::thread late(wait, absl::Seconds(2), &late_done);
  clock.AwaitWaiter(start + absl::Seconds(1));
  clock.AwaitWaiter(start + absl::Seconds(2));

  clock.Advance(absl::Milliseconds(999));
  {
    absl::MutexLock lock(&mutex);
    EXPECT_FALSE(early_done);
  }
  clock.Advance(absl::Milliseconds(1));
  early.join();
  {
    absl::MutexLock lock(&mutex);
    EXPECT_TRUE(early_done);
    EXPECT_FALSE(late_done);
  }
  clock.Advance(absl::Seconds(1));
  late.join();
}

TEST(FakeClock, ConditionEndsTheWaitWithoutTime) {
  FakeClock clock;
  const absl::Time deadline = clock.Now() + absl::Seconds(1);
  absl::Mutex mutex;
  bool flag = false;
  std::thread waiter([&] {
    absl::MutexLock lock(&mutex);
    EXPECT_TRUE(clock.AwaitWithDeadline(&mutex, absl::Condition(&flag), deadline));
  });
  clock.AwaitWaiter(deadline);
  {
    absl::MutexLock lock(&mutex);
    flag = true;
  }
  waiter.join();
}

// The waiter's mutex dies as soon as the wait is over: Advance must have let go of it by then.
TEST(FakeClock, MutexMayDieAfterTheWait) {
  FakeClock clock;
  for (int round = 0; round < 200; ++round) {
    const absl::Time deadline = clock.Now() + absl::Seconds(1);
    std::vector<std::thread> waiters;
    for (int i = 0; i < 2; ++i) {
      waiters.emplace_back([&] {
        absl::Mutex mutex;
        bool flag = false;
        absl::MutexLock lock(&mutex);
        EXPECT_FALSE(clock.AwaitWithDeadline(&mutex, absl::Condition(&flag), deadline));
      });
    }
    clock.Advance(absl::Seconds(1));
    for (std::thread& waiter : waiters) waiter.join();
  }
}

}  // namespace
}  // namespace tessera
