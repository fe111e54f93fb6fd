#include "server/scheduler/lookout.h"

#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// Ends before anybody would wait for it, or never.
constexpr absl::Duration kShort = absl::Microseconds(1), kForever = absl::Hours(1);

TEST(LookoutTest, EndsWhenWorkComes) {
  Lookout lookout(kForever);
  lookout.Arrived();  // earlier
  ASSERT_TRUE(lookout.Begin());
  std::thread looker([&] { lookout.Look(); });
  lookout.Arrived();
  looker.join();
  EXPECT_TRUE(lookout.looking()) << "it has not taken what came yet";
  lookout.End();
  EXPECT_FALSE(lookout.looking());
}

TEST(LookoutTest, SeesWhatCameBeforeTheFirstLook) {
  Lookout lookout(kForever);
  ASSERT_TRUE(lookout.Begin());
  lookout.Arrived();
  lookout.Look();
}

TEST(LookoutTest, OneLooksAtATime) {
  Lookout lookout(kForever);
  ASSERT_TRUE(lookout.Begin());
  EXPECT_FALSE(lookout.Begin());
  lookout.Arrived();
  lookout.Look();
  lookout.End();
  EXPECT_TRUE(lookout.Begin());
}

TEST(LookoutTest, NoneWhereThereIsNoTimeForIt) {
  Lookout lookout(absl::ZeroDuration());
  EXPECT_FALSE(lookout.Begin());
  EXPECT_FALSE(lookout.looking());
}

TEST(LookoutTest, RestsWhereNothingComes) {
  Lookout lookout(kShort);
  for (int miss = 0; miss < Lookout::kMisses; ++miss) {
    ASSERT_TRUE(lookout.Begin()) << miss;
    lookout.Look();
    lookout.End();
  }
  for (int rest = 0; rest < Lookout::kRests; ++rest) ASSERT_FALSE(lookout.Begin()) << rest;
  EXPECT_FALSE(lookout.looking());
  ASSERT_TRUE(lookout.Begin());
  lookout.Arrived();
  lookout.Look();
  lookout.End();
  EXPECT_TRUE(lookout.Begin()) << "work came: no miss";
}

}  // namespace
}  // namespace tessera
