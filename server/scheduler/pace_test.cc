#include "server/scheduler/pace.h"

#include "gtest/gtest.h"

namespace tessera {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

double SecondsFor(const Pace& pace, double cost) { return absl::ToDoubleSeconds(*pace.TimeFor(cost)); }

TEST(Pace, UnknownUntilABatchHasEnded) {
  Pace pace;
  EXPECT_EQ(pace.TimeFor(1), std::nullopt);
  pace.Start(100, kStart);
  EXPECT_EQ(pace.TimeFor(1), std::nullopt);
  pace.Finish(kStart + absl::Seconds(1));
  EXPECT_DOUBLE_EQ(SecondsFor(pace, 50), 0.5);
}

TEST(Pace, IdleTimeDoesNotCount) {
  Pace pace;
  pace.Start(100, kStart);
  pace.Finish(kStart + absl::Seconds(1));
  pace.Start(100, kStart + absl::Hours(1));
  pace.Finish(kStart + absl::Hours(1) + absl::Seconds(1));
  EXPECT_NEAR(SecondsFor(pace, 100), 1.0, 0.06);
}

TEST(Pace, BatchesThatOverlapAddUp) {
  Pace pace;
  pace.Start(100, kStart);
  pace.Start(100, kStart);
  pace.Finish(kStart + absl::Seconds(1));
  pace.Finish(kStart + absl::Seconds(1));
  EXPECT_EQ(pace.running(), 0);
  EXPECT_DOUBLE_EQ(SecondsFor(pace, 200), 1.0);
}

TEST(Pace, StoppedBatchDoesNotMakeItLookFaster) {
  Pace pace;
  pace.Start(100, kStart);
  pace.Finish(kStart + absl::Seconds(1));
  pace.Start(1e12, kStart + absl::Seconds(1));
  pace.Stop(kStart + absl::Seconds(1));
  EXPECT_EQ(pace.running(), 0);
  EXPECT_EQ(pace.cost_running(), 0);
  EXPECT_DOUBLE_EQ(SecondsFor(pace, 100), 1.0);
}

TEST(Pace, FollowsAChange) {
  Pace pace;
  absl::Time now = kStart;
  for (const double cost : {1000.0, 10.0}) {
    for (int i = 0; i < 60; ++i) {
      pace.Start(cost, now);
      now += absl::Seconds(1);
      pace.Finish(now);
    }
    EXPECT_NEAR(SecondsFor(pace, cost), 1.0, 0.3);
  }
}

}  // namespace
}  // namespace tessera
