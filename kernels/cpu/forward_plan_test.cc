#include "kernels/cpu/forward_plan.h"

#include <algorithm>
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

constexpr int32_t kHeadDim = 256;  // of the tests below, unless they say otherwise
constexpr int64_t kRows = BlockRows(kHeadDim);
static_assert(kRows == 192 && kTileKeys == 64);

std::vector<SequenceView> Sequences(std::initializer_list<SequenceLengths> lengths) {
  std::vector<SequenceView> views;
  for (const SequenceLengths& n : lengths) views.push_back({.q_len = n.q_len, .kv_len = n.kv_len});
  return views;
}

TEST(TileShapeTest, BlocksAreWholePanelsAndFitTheScratch) {
  for (int64_t head_dim = kMinHeadDim; head_dim <= kMaxHeadDim; head_dim += kHeadDimStep) {
    const int64_t rows = BlockRows(head_dim);
    EXPECT_GE(rows, kTileRows);
    EXPECT_LE(rows, kMaxBlockRows);
    EXPECT_EQ(rows % kTileRows, 0);
    EXPECT_LE(rows * head_dim, kBlockElements);
  }
}

TEST(ForwardPlanTest, CoversEveryRowOfEveryHeadOnce) {
  const AttentionParams params{.q_heads = 15, .kv_heads = 3, .head_dim = kHeadDim, .mask = Mask::Causal()};
  const std::vector<SequenceView> sequences = Sequences({{0, 7}, {1, 1}, {38, 100}, {39, 0}, {500, 500}});
  const ForwardPlan plan(params, sequences);
  std::set<std::tuple<int64_t, int64_t, int64_t>> rows;
  for (int64_t i = 0; i < plan.size(); ++i) {
    const ForwardPlan::Item item = plan[i];
    EXPECT_EQ(item.block.first_row % kRows, 0);
    EXPECT_LE(item.block.rows, kRows);
    for (int64_t row = 0; row < item.block.rows; ++row) {
      EXPECT_TRUE(rows.emplace(item.sequence, item.block.kv_head, item.block.first_row + row).second);
    }
  }
  EXPECT_EQ(rows.size(), (1 + 38 + 39 + 500) * 15u);
}

TEST(ForwardPlanTest, LargestFirst) {
  const AttentionParams params{.head_dim = kHeadDim, .mask = Mask::Causal()};
  const std::vector<SequenceView> sequences = Sequences({{10, 10}, {2000, 2000}, {192, 4000}});
  const ForwardPlan plan(params, sequences);
  EXPECT_EQ(plan[0].sequence, 2);
  int64_t last_keys = plan.size() > 0 ? 4000 : 0;
  for (int64_t i = 1; i < plan.size() - 1; ++i) {
    const ForwardPlan::Item item = plan[i];
    if (item.block.rows < kRows) continue;
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
  for (Mask mask : {Mask::Full(), Mask::Causal(), Mask::Window(64, 0), Mask::Window(0, 100), Mask::Window(300, 5)}) {
    for (const SequenceLengths n : {SequenceLengths{500, 500}, {500, 130}, {3, 1000}, {700, 64}, {1, 1}, {9, 0}}) {
      const AttentionParams params{.q_heads = 6, .kv_heads = 2, .head_dim = kHeadDim, .mask = mask};
      const MaskGeometry geometry(mask, n.q_len, n.kv_len);
      int64_t computed = 0;
      int64_t all = 0;
      for (int64_t first = 0; first < 3 * n.q_len; first += kTileRows) {
        for (int64_t key = 0; key < n.kv_len; key += kTileKeys) {
          bool visible = false;
          for (int64_t row = first; row < std::min(first + kTileRows, 3 * n.q_len); ++row) {
            const KeyRange keys = geometry.VisibleTo(row / 3);
            visible |= std::max(keys.begin, key) < std::min(keys.end, key + kTileKeys);
          }
          computed += visible;
          ++all;
        }
      }
      const ForwardStats stats = ForwardPlan(params, Sequences({n})).stats();
      EXPECT_EQ(stats.tiles_computed, 2 * computed) << mask.left << "," << mask.right << " " << n.q_len;
      EXPECT_EQ(stats.tiles_skipped, 2 * (all - computed)) << mask.left << "," << mask.right << " " << n.q_len;
    }
  }
}

TEST(ForwardPlanTest, CausalSkipsNearlyHalf) {
  const AttentionParams params{.head_dim = kHeadDim, .mask = Mask::Causal()};
  const ForwardStats stats = ForwardPlan(params, Sequences({{8192, 8192}})).stats();
  EXPECT_NEAR(static_cast<double>(stats.tiles_skipped) / (stats.tiles_computed + stats.tiles_skipped), 0.5, 0.01);
}

TEST(ForwardPlanTest, WorkAndTrafficAreTheModels) {
  const AttentionParams params{.q_heads = 8, .kv_heads = 2, .head_dim = 32, .mask = Mask::Causal()};
  const std::vector<SequenceView> sequences = Sequences({{100, 300}, {57, 57}});
  const ForwardStats stats = ForwardPlan(params, sequences).stats();
  EXPECT_EQ(stats.flops, ForwardFlops(params, sequences[0]) + ForwardFlops(params, sequences[1]));
  EXPECT_EQ(stats.hbm_bytes,
            ForwardBytes(params, sequences[0], BlockRows(32)) + ForwardBytes(params, sequences[1], BlockRows(32)));
}

}  // namespace
}  // namespace tessera
