#include "client/cpp/tessera/timer_queue.h"

#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(TimerQueueTest, RunsTasksByTimeAndThenInOrder) {
  std::vector<int> order;
  absl::Notification ready, done;
  TimerQueue timers;
  timers.Post([&] { ready.WaitForNotification(); });
  const absl::Time now = absl::Now();
  timers.Schedule(now, [&] { order.push_back(3); });
  timers.Schedule(now - absl::Seconds(1), [&] { order.push_back(2); });
  timers.Schedule(now, [&] { order.push_back(4); });
  timers.Post([&] { order.push_back(1); });
  timers.Schedule(now + absl::Milliseconds(1), [&] { done.Notify(); });
  ready.Notify();
  done.WaitForNotification();
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 3, 4));
}

TEST(TimerQueueTest, DoesNotRunTasksAheadOfTime) {
  TimerQueue timers;
  absl::Notification done;
  const absl::Time when = absl::Now() + absl::Milliseconds(20);
  absl::Time ran;
  timers.Schedule(when, [&] {
    ran = absl::Now();
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_GE(ran, when);
}

TEST(TimerQueueTest, ATaskTakenBackNeverRuns) {
  bool ran = false;
  {
    TimerQueue timers;
    absl::Notification ready, done;
    timers.Post([&] { ready.WaitForNotification(); });
    const TimerQueue::Timer timer = timers.Schedule(absl::InfinitePast(), [&] { ran = true; });
    EXPECT_TRUE(timers.Cancel(timer));
    EXPECT_FALSE(timers.Cancel(timer));
    const TimerQueue::Timer last = timers.Schedule(absl::InfinitePast(), [&] { done.Notify(); });
    ready.Notify();
    done.WaitForNotification();
    EXPECT_FALSE(timers.Cancel(last));
  }
  EXPECT_FALSE(ran);
}

TEST(TimerQueueTest, TasksAreOnTimeThoughEarlierOnesWereTakenBack) {
  TimerQueue timers;
  for (const int64_t first_ms : {1, 5, 60'000}) {
    const TimerQueue::Timer first = timers.Schedule(absl::Now() + absl::Milliseconds(first_ms), [] {});
    timers.Cancel(first);
    absl::Notification done;
    const absl::Time when = absl::Now() + absl::Milliseconds(10);
    timers.Schedule(when, [&] { done.Notify(); });
    done.WaitForNotification();
    const absl::Time ran = absl::Now();
    EXPECT_GE(ran, when);
    EXPECT_LT(ran, when + absl::Seconds(20)) << "it waited for the task that was taken back";
  }
}

TEST(TimerQueueTest, DestructionDropsTasksThatAreNotDue) {
  bool ran = false;
  {
    TimerQueue timers;
    timers.Schedule(absl::InfiniteFuture(), [&] { ran = true; });
  }
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace tessera
