#include "server/scheduler/lookout.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// Ends before anybody would wait for it, or never.
constexpr absl::Duration kShort = absl::Microseconds(1), kForever = absl::Hours(1);
constexpr bool kTakesTasks = true;

TEST(LookoutTest, EndsWhenWorkComes) {
  Lookout lookout(kForever);
  lookout.Arrived();  // earlier
  ASSERT_TRUE(lookout.Begin());
  std::thread looker([&] { lookout.Look(kTakesTasks); });
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
  lookout.Look(kTakesTasks);
}

TEST(LookoutTest, OneLooksAtATime) {
  Lookout lookout(kForever);
  ASSERT_TRUE(lookout.Begin());
  EXPECT_FALSE(lookout.Begin());
  lookout.Arrived();
  lookout.Look(kTakesTasks);
  lookout.End();
  EXPECT_TRUE(lookout.Begin());
}

TEST(LookoutTest, NoneWhereThereIsNoTimeForIt) {
  Lookout lookout(absl::ZeroDuration());
  EXPECT_FALSE(lookout.Begin());
  EXPECT_FALSE(lookout.looking());
}

TEST(LookoutTest, WhoLooksCallsWhatIsHandedOver) {
  Lookout lookout(kForever);
  ASSERT_TRUE(lookout.Begin());
  std::thread::id looks, called;
  std::thread looker([&] {
    looks = std::this_thread::get_id();
    lookout.Look(kTakesTasks);
  });
  int calls = 0;
  while (!lookout.Hand([&] { ++calls; })) std::this_thread::yield();
  EXPECT_EQ(calls, 1) << "it was called before Hand returned";
  const auto bring_work = [&] {
    called = std::this_thread::get_id();
    lookout.Arrived();
  };
  while (!lookout.Hand(bring_work)) std::this_thread::yield();
  looker.join();
  EXPECT_EQ(called, looks);
}

TEST(LookoutTest, NobodyCallsWhereNobodyLooks) {
  Lookout lookout(kShort);
  const auto fail = [] { ADD_FAILURE() << "called"; };
  EXPECT_FALSE(lookout.Hand(fail));
  ASSERT_TRUE(lookout.Begin());
  EXPECT_FALSE(lookout.Hand(fail)) << "it does not look yet";
  lookout.Look(kTakesTasks);
  EXPECT_FALSE(lookout.Hand(fail)) << "it does not look any more";
  lookout.End();
  Lookout busy(kForever);
  ASSERT_TRUE(busy.Begin());
  std::thread looker([&] { busy.Look(/*take_tasks=*/false); });
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(busy.Hand(fail)) << "it takes none";
  busy.Arrived();
  looker.join();
}

TEST(LookoutTest, WorkWaitsForOneTaskAtMost) {
  Lookout lookout(kForever);
  ASSERT_TRUE(lookout.Begin());
  std::thread looker([&] { lookout.Look(kTakesTasks); });
  const auto fail = [] { ADD_FAILURE() << "called"; };
  bool brought = false;
  while (!lookout.Hand([&] {
    std::thread([&] { EXPECT_FALSE(lookout.Hand(fail)) << "it is busy"; }).join();
    lookout.Arrived();
    std::thread([&] { EXPECT_FALSE(lookout.Hand(fail)) << "work has come"; }).join();
    brought = true;
  })) {
    std::this_thread::yield();
  }
  looker.join();
  EXPECT_TRUE(brought);
}

TEST(LookoutTest, ALookThatWasOfUseIsNoMiss) {
  Lookout lookout(absl::Milliseconds(20));
  for (int handed = 0; handed < 2 * Lookout::kMisses;) {
    ASSERT_TRUE(lookout.Begin()) << handed;
    std::atomic<bool> over = false;
    std::thread looker([&] {
      lookout.Look(kTakesTasks);
      over = true;
    });
    bool taken = false;
    while (!taken && !over) taken = lookout.Hand([] {});
    handed += taken ? 1 : 0;
    looker.join();
    lookout.End();
  }
}

TEST(LookoutTest, WhatIsHandedOverIsCalledOnceHoweverTheLookEnds) {
  constexpr int kThreads = 4, kTasks = 500;
  Lookout lookout(absl::Microseconds(20));
  std::atomic<int> called = 0, left = kThreads;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int handed = 0; handed < kTasks;) {
        bool mine = false;
        const bool taken = lookout.Hand([&] {
          mine = true;
          if (++called % 3 == 0) lookout.Arrived();
        });
        ASSERT_EQ(mine, taken);
        handed += taken ? 1 : 0;
        if (handed % 5 == 0) lookout.Arrived();
      }
      --left;
    });
  }
  while (left > 0) {
    if (!lookout.Begin()) continue;
    lookout.Look(kTakesTasks);
    lookout.End();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(called, kThreads * kTasks);
}

TEST(LookoutTest, RestsWhereNothingComes) {
  Lookout lookout(kShort);
  for (int miss = 0; miss < Lookout::kMisses; ++miss) {
    ASSERT_TRUE(lookout.Begin()) << miss;
    lookout.Look(kTakesTasks);
    lookout.End();
  }
  for (int rest = 0; rest < Lookout::kRests; ++rest) ASSERT_FALSE(lookout.Begin()) << rest;
  EXPECT_FALSE(lookout.looking());
  ASSERT_TRUE(lookout.Begin());
  lookout.Arrived();
  lookout.Look(kTakesTasks);
  lookout.End();
  EXPECT_TRUE(lookout.Begin()) << "work came: no miss";
}

}  // namespace
}  // namespace tessera
