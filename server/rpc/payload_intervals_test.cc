#include "server/rpc/payload_intervals.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/random/seed.h"

namespace tessera {
namespace {

TEST(PayloadIntervalsTest, EmptyPayloadIsCompleteAtOnce) { EXPECT_TRUE(PayloadIntervals(0).complete()); }

TEST(PayloadIntervalsTest, RefusesWhatLeavesThePayload) {
  PayloadIntervals intervals(100);
  EXPECT_EQ(intervals.Add(99, 2).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(intervals.Add(101, 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(intervals.Add(std::numeric_limits<uint64_t>::max(), 2).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(intervals.Add(1, std::numeric_limits<uint64_t>::max()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(intervals.covered(), 0u);
  EXPECT_TRUE(intervals.Add(0, 100).ok());
  EXPECT_TRUE(intervals.complete());
}

TEST(PayloadIntervalsTest, RefusesEveryKindOfOverlap) {
  PayloadIntervals intervals(100);
  ASSERT_TRUE(intervals.Add(40, 20).ok());
  for (const auto& [offset, length] :
       std::vector<std::pair<uint64_t, uint64_t>>{{40, 20}, {45, 5}, {30, 11}, {59, 10}, {30, 50}, {40, 1}, {0, 100}}) {
    EXPECT_EQ(intervals.Add(offset, length).code(), absl::StatusCode::kInvalidArgument) << offset << "+" << length;
  }
  EXPECT_TRUE(intervals.Add(30, 10).ok());
  EXPECT_TRUE(intervals.Add(60, 10).ok());
  EXPECT_EQ(intervals.covered(), 40u);
}

TEST(PayloadIntervalsTest, AnyOrderOfChunksCompletes) {
  const uint64_t seed = tessera::RandomSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 rng(seed);
  for (int round = 0; round < 100; ++round) {
    std::vector<uint64_t> cuts = {0, 1000};
    for (int i = 0; i < 20; ++i) cuts.push_back(rng() % 1000);
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<std::pair<uint64_t, uint64_t>> chunks;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) chunks.emplace_back(cuts[i], cuts[i + 1] - cuts[i]);
    std::shuffle(chunks.begin(), chunks.end(), rng);
    PayloadIntervals intervals(1000);
    for (const auto& [offset, length] : chunks) {
      EXPECT_FALSE(intervals.complete());
      ASSERT_TRUE(intervals.Add(offset, length).ok());
      ASSERT_FALSE(intervals.Add(offset, length).ok());
    }
    EXPECT_TRUE(intervals.complete());
  }
}

TEST(PayloadIntervalsTest, GapsAreBounded) {
  PayloadIntervals intervals(1 << 20);
  for (uint64_t i = 0; i < PayloadIntervals::kMaxRanges; ++i) ASSERT_TRUE(intervals.Add(2 * i, 1).ok());
  const uint64_t beyond = 2 * PayloadIntervals::kMaxRanges;
  EXPECT_EQ(intervals.Add(beyond, 1).code(), absl::StatusCode::kInvalidArgument);
  // Filling a gap makes room.
  EXPECT_TRUE(intervals.Add(1, 1).ok());
  EXPECT_TRUE(intervals.Add(beyond, 1).ok());
}

}  // namespace
}  // namespace tessera
