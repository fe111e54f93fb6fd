#include "server/region/region_quota.h"

#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

using Amount = RegionQuota::Amount;

TEST(RegionQuotaTest, CountsRegionsAndBytesUntilTheyAreGivenBack) {
  RegionQuota quota({4, 1000}, {4, 1000});
  {
    const auto first = quota.Acquire("a", 600);
    auto second = quota.Acquire("b", 0);
    ASSERT_TRUE(first.ok() && second.ok());
    const RegionQuota::Charge moved = *std::move(second);
    EXPECT_EQ(quota.in_use(), (Amount{2, 600}));
  }
  EXPECT_EQ(quota.in_use(), Amount());
}

TEST(RegionQuotaTest, BytesOfAllTogetherAreBounded) {
  RegionQuota quota({10, 1000}, {10, 1000});
  std::optional<absl::StatusOr<RegionQuota::Charge>> first(quota.Acquire("a", 600));
  ASSERT_TRUE(first->ok());
  EXPECT_EQ(quota.Acquire("b", 401).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(quota.Acquire("b", 400).ok());
  first.reset();
  EXPECT_TRUE(quota.Acquire("b", 1000).ok());
}

TEST(RegionQuotaTest, OneTenantIsBounded) {
  RegionQuota quota({10, 1000}, {2, 500});
  const auto first = quota.Acquire("a", 300);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(quota.Acquire("a", 201).status().code(), absl::StatusCode::kResourceExhausted);
  const auto second = quota.Acquire("a", 200);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(quota.Acquire("a", 0).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(quota.Acquire("b", 500).ok());
}

TEST(RegionQuotaTest, WhatNeverFitsIsInvalid) {
  RegionQuota quota({10, 1000}, {10, 500});
  EXPECT_EQ(quota.Acquire("a", 501).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(quota.in_use(), Amount());
}

TEST(RegionQuotaTest, RegionsOfAllTogetherAreBounded) {
  RegionQuota quota({2, 1000}, {2, 1000});
  std::vector<absl::StatusOr<RegionQuota::Charge>> charges;
  charges.push_back(quota.Acquire("a", 1));
  charges.push_back(quota.Acquire("b", 1));
  EXPECT_EQ(quota.Acquire("c", 1).status().code(), absl::StatusCode::kResourceExhausted);
  charges.clear();
  EXPECT_TRUE(quota.Acquire("c", 1).ok());
}

}  // namespace
}  // namespace tessera
