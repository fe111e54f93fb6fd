#include "server/process/exit_watchdog.h"

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(ExitWatchdogDeathTest, EndsAProcessThatDoesNotEnd) {
  EXPECT_EXIT(
      {
        ExitWatchdog watchdog;
        watchdog.Arm(absl::Milliseconds(1));
        absl::Notification never;
        never.WaitForNotification();
      },
      ::testing::ExitedWithCode(0), "exit_forced");
}

TEST(ExitWatchdog, LetsAProcessBeThatEndsInTime) {
  ExitWatchdog idle;
  ExitWatchdog watchdog;
  watchdog.Arm(absl::Hours(1));
}

}  // namespace
}  // namespace tessera
