#include "server/memory/byte_budget.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/clock/fake_clock.h"

namespace tessera {
namespace {

TEST(ByteBudget, ChargesAndGivesBack) {
  FakeClock clock;
  ByteBudget budget(100, &clock);
  {
    absl::StatusOr<ByteBudget::Charge> charge = budget.Acquire("a", {60});
    ASSERT_TRUE(charge.ok());
    EXPECT_EQ(charge->bytes(), 60);
    EXPECT_EQ(budget.in_use(), 60);
    EXPECT_TRUE(budget.Acquire("a", {40}).ok());
    EXPECT_EQ(budget.in_use(), 60) << "a charge dropped at once is given back";
  }
  EXPECT_EQ(budget.in_use(), 0);
}

TEST(ByteBudget, RefusesWhatDoesNotFitNowAndWhatNeverWill) {
  FakeClock clock;
  ByteBudget budget(100, &clock);
  absl::StatusOr<ByteBudget::Charge> held = budget.Acquire("a", {60});
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(budget.Acquire("a", {41}).status().code(), absl::StatusCode::kResourceExhausted);
  const absl::Status never = budget.Acquire("a", {101}).status();
  EXPECT_EQ(never.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(never.message(), testing::HasSubstr("100"));
  EXPECT_EQ(budget.in_use(), 60);
  held->Release();
  EXPECT_EQ(budget.in_use(), 0);
  EXPECT_TRUE(budget.Acquire("a", {100}).ok());
}

TEST(ByteBudget, MovesCarryTheChargeOnce) {
  FakeClock clock;
  ByteBudget budget(100, &clock);
  ByteBudget::Charge a = *budget.Acquire("a", {30});
  ByteBudget::Charge b = std::move(a);
  EXPECT_EQ(a.bytes(), 0);  // NOLINT(bugprone-use-after-move): a moved-from charge is empty
  EXPECT_EQ(budget.in_use(), 30);
  ByteBudget::Charge c = *budget.Acquire("a", {50});
  b = std::move(c);  // gives 30 back
  EXPECT_EQ(budget.in_use(), 50);
  b.Release();
  b.Release();
  EXPECT_EQ(budget.in_use(), 0);
}

TEST(ByteBudget, OneTenantCanBeHeldToAPart) {
  FakeClock clock;
  ByteBudget budget({.bytes = 100, .staged = 100, .tenant_bytes = 60, .tenant_staged = 60}, &clock);
  ByteBudget::Charge most = *budget.Acquire("greedy", {60});
  EXPECT_EQ(budget.Acquire("greedy", {1}).status().code(), absl::StatusCode::kResourceExhausted);
  absl::StatusOr<ByteBudget::Charge> other = budget.Acquire("other", {40});
  ASSERT_TRUE(other.ok()) << other.status();
  most.Release();
  EXPECT_TRUE(budget.Acquire("greedy", {60}).ok());
  EXPECT_EQ(budget.Acquire("greedy", {61}).status().code(), absl::StatusCode::kInvalidArgument) << "never fits";
}

TEST(ByteBudget, StagedBytesHaveABoundOfTheirOwn) {
  FakeClock clock;
  ByteBudget budget({.bytes = 100, .staged = 60, .tenant_bytes = 100, .tenant_staged = 30}, &clock);
  const ByteBudget::Charge held = *budget.Acquire("a", {.bytes = 20, .staged = 20});
  EXPECT_EQ(budget.Acquire("a", {.bytes = 11, .staged = 11}).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(budget.Acquire("a", {.bytes = 11}).ok());
  const ByteBudget::Charge other = *budget.Acquire("b", {.bytes = 30, .staged = 30});
  EXPECT_EQ(budget.Acquire("c", {.bytes = 11, .staged = 11}).status().code(), absl::StatusCode::kResourceExhausted)
      << "50 of 60 are staged";
  EXPECT_EQ(budget.Acquire("b", {.bytes = 31, .staged = 31}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ByteBudget, WhatACallHoldsAlreadyCountsAgainstWhatItCanEverGet) {
  FakeClock clock;
  ByteBudget budget(100, &clock);
  const ByteBudget::Charge message = *budget.Acquire("a", {60});
  EXPECT_EQ(budget.Acquire("a", {41}).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(budget.Acquire("a", {41}, /*beside=*/60).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(budget.Acquire("a", {40}, /*beside=*/60).ok());
}

TEST(ByteBudget, NeverOverdrawnByManyThreads) {
  constexpr int64_t kLimit = 1000;
  ByteBudget budget(kLimit, Clock::Real());
  std::vector<std::thread> threads;
  std::vector<int64_t> most(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&budget, &peak = most[t], t] {
      for (int i = 0; i < 20000; ++i) {
        absl::StatusOr<ByteBudget::Charge> charge =
            budget.Acquire(t % 2 == 0 ? "even" : "odd", {1 + (i * 37 + t * 101) % 400});
        peak = std::max(peak, budget.in_use());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.in_use(), 0);
  EXPECT_THAT(most, testing::Each(testing::AllOf(testing::Gt(0), testing::Le(kLimit))));
}

}  // namespace
}  // namespace tessera
