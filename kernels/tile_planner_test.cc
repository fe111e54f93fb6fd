#include "kernels/tile_planner.h"

#include <string>

#include "gtest/gtest.h"

namespace tessera {
namespace {

TilePlan PlanOf(const TileRequest& request) {
  const absl::StatusOr<TilePlan> plan = PlanTile(request);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

TEST(TilePlannerTest, TheArticlesTable) {
  const TilePlan plan = PlanOf({.sram_bytes = 192 * 1024, .head_dim = 128, .element_bytes = 2, .stages = 1});
  EXPECT_EQ(plan.tile, 128);
  EXPECT_TRUE(plan.fits);
  const struct {
    const char* name;
    int64_t bytes;
  } expected[] = {{"Q", 32768}, {"K", 32768}, {"V", 32768}, {"S", 32768}, {"O", 32768}, {"statistics", 1024}};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(plan.components[i].name, expected[i].name);
    EXPECT_EQ(plan.components[i].bytes, expected[i].bytes) << expected[i].name;
  }
  EXPECT_EQ(plan.total_bytes, 161 * 1024);
}

TEST(TilePlannerTest, TotalFollowsTheFormula) {
  for (int tile = kMinTile; tile <= kMaxTile; tile *= 2) {
    for (int head_dim : {8, 64, 128, 256}) {
      const int64_t b = tile, d = head_dim;
      EXPECT_EQ(PlanAtTile({.head_dim = head_dim}, tile)->total_bytes, 2 * (4 * b * d + b * b) + 8 * b);
      EXPECT_EQ(PlanAtTile({.head_dim = head_dim, .element_bytes = 4, .stages = 3}, tile)->total_bytes,
                4 * (8 * b * d + b * b) + 8 * b);
    }
  }
}

TEST(TilePlannerTest, PicksTheLargestPowerOfTwoThatFits) {
  for (int64_t sram : {int64_t{1}, int64_t{8192}, int64_t{65536}, int64_t{164863}, int64_t{164864}, int64_t{1} << 40}) {
    const TilePlan plan = PlanOf({.sram_bytes = sram});
    EXPECT_EQ(plan.fits, plan.total_bytes <= sram);
    EXPECT_TRUE(plan.fits || plan.tile == kMinTile);
    EXPECT_TRUE(plan.tile == kMaxTile || PlanAtTile({}, plan.tile * 2)->total_bytes > sram);
  }
  EXPECT_EQ(PlanOf({.sram_bytes = 164864}).tile, 128);
  EXPECT_EQ(PlanOf({.sram_bytes = 164863}).tile, 64);
  EXPECT_EQ(PlanOf({.sram_bytes = int64_t{1} << 40}).tile, 256);
}

TEST(TilePlannerTest, MoreStagesTakeMoreOfKAndVOnly) {
  const TilePlan one = *PlanAtTile({.stages = 1}, 64);
  const TilePlan two = *PlanAtTile({.stages = 2}, 64);
  for (int i = 0; i < 6; ++i) {
    const bool buffered = one.components[i].name == "K" || one.components[i].name == "V";
    EXPECT_EQ(two.components[i].bytes, one.components[i].bytes * (buffered ? 2 : 1)) << one.components[i].name;
  }
}

TEST(TilePlannerTest, RefusesNamingTheField) {
  const auto message = [](const absl::StatusOr<TilePlan>& plan) {
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(plan.status().message());
  };
  EXPECT_NE(message(PlanTile({.sram_bytes = 0})).find("sram_bytes"), std::string::npos);
  EXPECT_NE(message(PlanTile({.head_dim = 4})).find("head_dim"), std::string::npos);
  EXPECT_NE(message(PlanTile({.element_bytes = 3})).find("element_bytes"), std::string::npos);
  EXPECT_NE(message(PlanTile({.stages = 0})).find("stages"), std::string::npos);
  EXPECT_NE(message(PlanTile({.stages = kMaxStages + 1})).find("stages"), std::string::npos);
  for (int tile : {0, 8, 24, 512, -16}) EXPECT_NE(message(PlanAtTile({}, tile)).find("tile"), std::string::npos);
}

}  // namespace
}  // namespace tessera
