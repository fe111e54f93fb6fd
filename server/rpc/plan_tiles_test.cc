#include "server/rpc/plan_tiles.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

TEST(PlanTilesTest, DefaultsGiveTheArticlesTable) {
  const absl::StatusOr<v1::PlanTilesResponse> plan = PlanTiles({});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->tile(), 128u);
  EXPECT_TRUE(plan->fits());
  EXPECT_EQ(plan->total_bytes(), 2u * (4 * 128 * 128 + 128 * 128) + 8 * 128);
  uint64_t sum = 0;
  for (const v1::TileComponent& component : plan->components()) sum += component.bytes();
  EXPECT_EQ(sum, plan->total_bytes());
  uint64_t tiled_written = 0;
  for (const v1::TrafficRow& row : plan->traffic()) tiled_written += row.tiled_write_bytes();
  EXPECT_EQ(tiled_written, 4096u * 128 * 2);
  EXPECT_EQ(plan->flops(), 4.0 * 4096 * 4096 * 128);
}

TEST(PlanTilesTest, TileAskedForIsReportedEvenWhereItDoesNotFit) {
  v1::PlanTilesRequest request;
  request.set_tile(256);
  const absl::StatusOr<v1::PlanTilesResponse> plan = PlanTiles(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->tile(), 256u);
  EXPECT_FALSE(plan->fits());
}

TEST(PlanTilesTest, LongestSequenceAtItsCostliestFits63Bits) {
  v1::PlanTilesRequest request;
  request.set_sequence_length(uint64_t{1} << 27);
  request.set_head_dim(256);
  request.set_dtype(v1::DATA_TYPE_FLOAT32);
  request.set_tile(16);
  const absl::StatusOr<v1::PlanTilesResponse> plan = PlanTiles(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  double read = 0;
  for (const v1::TrafficRow& row : plan->traffic()) read += static_cast<double>(row.tiled_read_bytes());
  // K and V for each of the 2^23 row blocks, and Q once, of 2^37 bytes each.
  EXPECT_EQ(read, std::ldexp(1.0, 37) * (2 * std::ldexp(1.0, 23) + 1));

  request.set_sequence_length((uint64_t{1} << 27) + 1);
  EXPECT_EQ(PlanTiles(request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PlanTilesTest, RefusalsNameTheField) {
  const auto refusal = [](const v1::PlanTilesRequest& request) {
    const absl::StatusOr<v1::PlanTilesResponse> plan = PlanTiles(request);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(plan.status().message());
  };
  v1::PlanTilesRequest request;
  request.set_head_dim(7);
  EXPECT_THAT(refusal(request), HasSubstr("head_dim"));
  request.set_head_dim(0xffffffffu);
  EXPECT_THAT(refusal(request), HasSubstr("head_dim: 4294967295"));
  request = {};
  request.set_stages(0xffffffffu);
  EXPECT_THAT(refusal(request), HasSubstr("stages: 4294967295"));
  request = {};
  request.set_tile(0xffffffffu);
  EXPECT_THAT(refusal(request), HasSubstr("tile: 4294967295"));
  request = {};
  request.set_tile(100);
  EXPECT_THAT(refusal(request), HasSubstr("tile"));
  request = {};
  request.set_stages(9);
  EXPECT_THAT(refusal(request), HasSubstr("stages"));
  request = {};
  request.set_dtype(static_cast<v1::DataType>(12));
  EXPECT_THAT(refusal(request), HasSubstr("dtype"));
  request = {};
  request.set_sequence_length(0xffffffffffffffffu);
  EXPECT_THAT(refusal(request), HasSubstr("sequence_length"));
}

}  // namespace
}  // namespace tessera
