#include "server/rpc/open_rpcs.h"

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "server/clock/clock.h"

namespace tessera {
namespace {

TEST(OpenRpcsTest, QuietWhereNothingIsOpen) {
  OpenRpcs rpcs;
  rpcs.Started();
  rpcs.Ended();
  EXPECT_TRUE(rpcs.AwaitQuiet(absl::Milliseconds(1), Clock::Real()->Now() + absl::Minutes(1)));
}

TEST(OpenRpcsTest, NotQuietWhileAnyIsOpen) {
  OpenRpcs rpcs;
  rpcs.Started();
  EXPECT_FALSE(rpcs.AwaitQuiet(absl::ZeroDuration(), Clock::Real()->Now()));
  absl::Notification quiet;
  std::thread waiter([&] {
    EXPECT_TRUE(rpcs.AwaitQuiet(absl::Milliseconds(1), Clock::Real()->Now() + absl::Minutes(1)));
    quiet.Notify();
  });
  EXPECT_FALSE(quiet.HasBeenNotified());
  rpcs.Ended();
  waiter.join();
}

TEST(OpenRpcsTest, NotQuietWhileOneFollowsTheOther) {
  OpenRpcs rpcs;
  std::atomic<bool> stop = false;
  std::thread caller([&] {
    while (!stop) {
      rpcs.Started();
      rpcs.Ended();
    }
  });
  EXPECT_FALSE(rpcs.AwaitQuiet(absl::Milliseconds(500), Clock::Real()->Now() + absl::Seconds(1)));
  stop = true;
  caller.join();
}

}  // namespace
}  // namespace tessera
