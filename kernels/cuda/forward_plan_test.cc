#include "kernels/cuda/forward_plan.h"

#include <cstdint>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace tessera::cuda {
namespace {

const ForwardKernelEntry kKernel = {128, 128, 64, nullptr};

AttentionParams Params(int q_heads, int kv_heads) {
  AttentionParams params;
  params.dtype = DType::kBFloat16;
  params.q_heads = q_heads;
  params.kv_heads = kv_heads;
  params.head_dim = 128;
  params.mask = Mask::Causal();
  return params;
}

SequenceView Sequence(int64_t q_len, int64_t kv_len) {
  SequenceView sequence;
  sequence.q_len = q_len;
  sequence.kv_len = kv_len;
  return sequence;
}

// (sequence, head, row block) of a tile number, as the kernels work it out.
std::tuple<uint32_t, uint32_t, uint32_t> Decode(const ForwardPlan& plan, uint32_t tile) {
  const TileSection* section = nullptr;
  for (const TileSection& candidate : plan.sections) {
    if (candidate.first_tile <= tile) section = &candidate;
  }
  const uint32_t index = tile - section->first_tile;
  const uint32_t lane = section->first_head + index % section->lanes;
  return {section->first_sequence + lane / section->heads, lane % section->heads,
          section->row_blocks - 1 - index / section->lanes};
}

TEST(ForwardPlanTest, NumbersEveryTileOnce) {
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    const int kv_heads = 1 + static_cast<int>(random() % 3);
    const AttentionParams params = Params(kv_heads * (1 + static_cast<int>(random() % 5)), kv_heads);
    std::vector<SequenceView> sequences;
    for (uint32_t s = random() % 12; s > 0; --s) {
      const int64_t lengths[] = {0, 1, 64, 128, 129, 1000, 40000};
      sequences.push_back(Sequence(lengths[random() % 7], lengths[random() % 7] * (random() % 2 ? 1 : 10)));
    }
    const absl::StatusOr<ForwardPlan> plan = PlanForward(params, sequences, {}, kKernel, nullptr);
    ASSERT_TRUE(plan.ok()) << plan.status();
    std::set<std::tuple<uint32_t, uint32_t, uint32_t>> expected, seen;
    for (uint32_t s = 0; s < plan->sequences.size(); ++s) {
      const SequenceShape& shape = plan->sequences[s].shape;
      const uint32_t blocks = static_cast<uint32_t>((shape.q_len + shape.tokens_per_tile - 1) / shape.tokens_per_tile);
      for (uint32_t head = 0; head < static_cast<uint32_t>(params.q_heads / shape.group); ++head) {
        for (uint32_t block = 0; block < blocks; ++block) expected.insert({s, head, block});
      }
    }
    for (uint32_t tile = 0; tile < plan->tile_count; ++tile) {
      EXPECT_TRUE(seen.insert(Decode(*plan, tile)).second) << "tile " << tile << " twice";
    }
    EXPECT_EQ(seen, expected);
  }
}

TEST(ForwardPlanTest, OrdersSequencesLongestFirstAndDropsThoseWithoutQueries) {
  const std::vector<SequenceView> sequences = {Sequence(10, 5), Sequence(0, 900), Sequence(1, 700), Sequence(300, 700)};
  const absl::StatusOr<ForwardPlan> plan = PlanForward(Params(1, 1), sequences, {}, kKernel, nullptr);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->sequences.size(), 3u);
  EXPECT_EQ(plan->sequences[0].shape.q_len, 300);
  EXPECT_EQ(plan->sequences[1].shape.q_len, 1);
  EXPECT_EQ(plan->sequences[2].shape.q_len, 10);
}

TEST(ForwardPlanTest, StacksQueryHeadsOnlyWhereThatTakesFewerTiles) {
  EXPECT_EQ(StackedHeads(Params(8, 8), 1, 128), 1);
  EXPECT_EQ(StackedHeads(Params(8, 1), 1, 128), 8);
  EXPECT_EQ(StackedHeads(Params(8, 1), 16, 128), 8);
  EXPECT_EQ(StackedHeads(Params(8, 1), 128, 128), 1);  // 8 tiles either way
  EXPECT_EQ(StackedHeads(Params(64, 1), 1, 128), 64);
  EXPECT_EQ(StackedHeads(Params(65, 1), 1, 128), 1);  // a token must fit kRowUnit rows
}

TEST(ForwardPlanTest, RefusesLengthsThatKernelsCannotCount) {
  const SequenceView sequence = Sequence(1, int64_t{kMaxLength} + 1);
  EXPECT_EQ(PlanForward(Params(1, 1), {&sequence, 1}, {}, kKernel, nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ForwardPlanTest, CountsComputedAndSkippedTiles) {
  // 256 rows and keys: row block 0 sees 2 of 4 key blocks, row block 1 all 4.
  const ForwardStats stats = ModelForward(Params(2, 2), Sequence(256, 256), kKernel);
  EXPECT_EQ(stats.tiles_computed, 2 * 6);
  EXPECT_EQ(stats.tiles_skipped, 2 * 2);
  EXPECT_EQ(stats.flops, 4.0 * 128 * 2 * (256 * 257 / 2));
}

}  // namespace
}  // namespace tessera::cuda
