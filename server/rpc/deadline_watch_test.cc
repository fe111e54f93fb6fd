#include "server/rpc/deadline_watch.h"

#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "server/clock/fake_clock.h"

namespace tessera {
namespace {

class DeadlineWatchTest : public ::testing::Test {
 protected:
  absl::Time At(int seconds) const { return start_ + absl::Seconds(seconds); }

  FakeClock clock_;
  const absl::Time start_ = clock_.Now();
  DeadlineWatch watch_{&clock_};
};

TEST_F(DeadlineWatchTest, FiresAtTheDeadlineAndNotBefore) {
  absl::Notification fired;
  watch_.Add(At(10), [&] { fired.Notify(); });
  clock_.AwaitWaiter(At(10));
  clock_.Advance(absl::Seconds(10) - absl::Nanoseconds(1));
  EXPECT_FALSE(fired.HasBeenNotified());
  clock_.Advance(absl::Nanoseconds(1));
  fired.WaitForNotification();
}

TEST_F(DeadlineWatchTest, EarlierEntryShortensTheWait) {
  absl::Notification late, early;
  watch_.Add(At(10), [&] { late.Notify(); });
  clock_.AwaitWaiter(At(10));
  watch_.Add(At(5), [&] { early.Notify(); });
  clock_.AwaitWaiter(At(5));
  clock_.Advance(absl::Seconds(5));
  early.WaitForNotification();
  EXPECT_FALSE(late.HasBeenNotified());
  clock_.Advance(absl::Seconds(5));
  late.WaitForNotification();
}

TEST_F(DeadlineWatchTest, RemovedEntryDoesNotFire) {
  absl::Notification other;
  const DeadlineWatch::Token token = watch_.Add(At(1), [] { FAIL() << "was removed"; });
  watch_.Add(At(2), [&] { other.Notify(); });
  watch_.Remove(token);
  watch_.Remove(token);
  clock_.Advance(absl::Seconds(2));
  other.WaitForNotification();
}

TEST_F(DeadlineWatchTest, FiresInOrderOfDeadlineThenAge) {
  std::vector<int> order;
  absl::Notification last;
  watch_.Add(At(3), [&] {
    order.push_back(3);
    last.Notify();
  });
  watch_.Add(At(1), [&] { order.push_back(1); });
  watch_.Add(At(1), [&] { order.push_back(2); });
  clock_.Advance(absl::Seconds(3));
  last.WaitForNotification();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST_F(DeadlineWatchTest, CallbackMayAddAndRemove) {
  absl::Notification done;
  watch_.Add(At(1), [&] {
    const DeadlineWatch::Token token = watch_.Add(At(1), [] { FAIL() << "was removed"; });
    watch_.Remove(token);
    watch_.Add(At(1), [&] { done.Notify(); });
  });
  clock_.Advance(absl::Seconds(1));
  done.WaitForNotification();
}

TEST_F(DeadlineWatchTest, StopDropsWhatHasNotFired) {
  watch_.Add(At(1), [] { FAIL() << "was stopped"; });
  watch_.Stop();
  clock_.Advance(absl::Seconds(2));
  watch_.Add(At(0), [] { FAIL() << "was stopped"; });
}

TEST_F(DeadlineWatchTest, StopLetsGoOfWhatCallbacksOwn) {
  const auto owned = std::make_shared<int>(0);
  watch_.Add(At(1), [owned] {});
  watch_.Stop();
  EXPECT_EQ(owned.use_count(), 1);
  watch_.Add(At(1), [owned] {});
  EXPECT_EQ(owned.use_count(), 1);
}

}  // namespace
}  // namespace tessera
