#include "kernels/cpu/forward_plan.h"

#include <set>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/tile_shape.h"
#include "kernels/mask.h"
#include "kernels/testing/random_batch.h"
#include "kernels/traffic_model.h"

namespace tessera {
namespace {

std::vector<SequenceView> Sequences(std::initializer_list<SequenceLengths> lengths) {
  std::vector<SequenceView> views;
  for (const SequenceLengths& n : lengths) views.push_back({.q_len = n.q_len, .kv_len = n.kv_len});
  return views;
}

TEST(ForwardPlanTest, CoversEveryRowOfEveryHeadOnce) {
  const AttentionParams params{.q_heads = 15, .kv_heads = 3, .mask = Mask::Causal()};
  const std::vector<SequenceView> sequences = Sequences({{0, 7}, {1, 1}, {38, 100}, {39, 0}, {500, 500}});
  const ForwardPlan plan(params, sequences);
  std::set<std::tuple<int64_t, int64_t, int64_t>> rows;
  for (int64_t i = 0; i < plan.size(); ++i) {
    const ForwardPlan::Item item = plan[i];
    EXPECT_EQ(item.block.first_row % kBlockRows, 0);
    EXPECT_LE(item.block.rows, kBlockRows);
    for (int64_t row = 0; row < item.block.rows; ++row) {
      EXPECT_TRUE(rows.emplace(item.sequence, item.block.kv_head, item.block.first_row + row).second);
    }
  }
  EXPECT_EQ(rows.size(), (1 + 38 + 39 + 500) * 15u);
}

TEST(ForwardPlanTest, LargestFirst) {
  const AttentionParams params{.mask = Mask::Causal()};
  const std::vector<SequenceView> sequences = Sequences({{10, 10}, {2000, 2000}, {192, 4000}});
  const ForwardPlan plan(params, sequences);
  EXPECT_EQ(plan[0].sequence, 2);
  int64_t last_keys = plan.size() > 0 ? 4000 : 0;
  for (int64_t i = 1; i < plan.size() - 1; ++i) {
    const ForwardPlan::Item item = plan[i];
    if (item.block.rows < kBlockRows) continue;
    const SequenceView& sequence = sequences[item.sequence];
    const int64_t keys = MaskGeometry(params.mask, sequence.q_len, sequence.kv_len)
                             .VisibleToAny(item.block.first_row, item.block.first_row + item.block.rows - 1)
                             .size();
    EXPECT_LE(keys, last_keys);
    last_keys = keys;
  }
  EXPECT_EQ(plan[plan.size() - 1].sequence, 0);
}

TEST(ForwardPlanTest, CountsTilesComputedAndSkipped) {
  const int64_t n = 8 * kBlockRows;  // 8 blocks of rows, 24 tiles of keys at 192 x 64
  const int64_t tiles = n / kTileKeys;
  const std::vector<SequenceView> sequences = Sequences({{n, n}});
  AttentionParams params{.q_heads = 4, .kv_heads = 4};
  EXPECT_EQ(ForwardPlan(params, sequences).stats().tiles_computed, 4 * 8 * tiles);
  EXPECT_EQ(ForwardPlan(params, sequences).stats().tiles_skipped, 0);

  params.mask = Mask::Causal();
  const ForwardStats causal = ForwardPlan(params, sequences).stats();
  int64_t expected = 0;  // block b sees the keys up to its last row
  for (int64_t b = 0; b < 8; ++b) expected += (b + 1) * kBlockRows / kTileKeys;
  EXPECT_EQ(causal.tiles_computed, 4 * expected);
  EXPECT_EQ(causal.tiles_skipped, 4 * (8 * tiles - expected));

  params.mask = Mask::Window(kTileKeys, 0);
  const ForwardStats window = ForwardPlan(params, sequences).stats();
  EXPECT_EQ(window.tiles_computed, 4 * (8 * (kBlockRows / kTileKeys) + 7));
  EXPECT_EQ(window.tiles_computed + window.tiles_skipped, 4 * 8 * tiles);
}

TEST(ForwardPlanTest, RowsThatSeeNothingSkipAllTiles) {
  const AttentionParams params{.mask = Mask::Causal()};
  const std::vector<SequenceView> sequences = Sequences({{3 * kBlockRows, kTileKeys}});
  const ForwardStats stats = ForwardPlan(params, sequences).stats();
  EXPECT_EQ(stats.tiles_computed, 1);
  EXPECT_EQ(stats.tiles_skipped, 2);
}

TEST(ForwardPlanTest, WorkAndTrafficAreTheModels) {
  const AttentionParams params{.q_heads = 8, .kv_heads = 2, .head_dim = 32, .mask = Mask::Causal()};
  const std::vector<SequenceView> sequences = Sequences({{100, 300}, {57, 57}});
  const ForwardStats stats = ForwardPlan(params, sequences).stats();
  EXPECT_EQ(stats.flops, ForwardFlops(params, sequences[0]) + ForwardFlops(params, sequences[1]));
  EXPECT_EQ(stats.hbm_bytes,
            ForwardBytes(params, sequences[0], kBlockRows) + ForwardBytes(params, sequences[1], kBlockRows));
}

}  // namespace
}  // namespace tessera
