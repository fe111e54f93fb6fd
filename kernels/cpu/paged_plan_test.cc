#include "kernels/cpu/paged_plan.h"

#include <map>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/split_partial.h"
#include "kernels/cpu/tile_shape.h"
#include "kernels/testing/paged_batch.h"

namespace tessera {
namespace {

AttentionParams Attention(Mask mask) {
  return {.dtype = DType::kBFloat16, .q_heads = 8, .kv_heads = 2, .head_dim = 64, .mask = mask};
}

PagedPlan Plan(const AttentionParams& attention, const std::vector<PagedLengths>& lengths) {
  PagedBatch batch(attention, {CacheDType::kBFloat16, 16}, lengths, 1);
  return PagedPlan(batch.params(), batch.Views());
}

TEST(PagedPlanTest, FewRowsAreSplitByKeysAndManyByRows) {
  const int64_t most = kMaxSplitRows / 4;
  const PagedPlan plan = Plan(Attention(Mask::Causal()), {{most, 1200, 0}, {most + 1, 1200, 0}, {0, 1200, 0}});
  std::map<int64_t, std::vector<PagedPlan::Item>> by_sequence;
  for (const PagedPlan::Item& item : plan.items()) by_sequence[item.sequence].push_back(item);
  ASSERT_EQ(by_sequence.size(), 2u);
  EXPECT_EQ(by_sequence[0].size(), 2u * 3) << "key heads times splits";
  EXPECT_EQ(by_sequence[1].size(), 2u);
  for (const PagedPlan::Item& item : by_sequence[1]) {
    EXPECT_LT(item.partial, 0);
    EXPECT_EQ(item.block.rows, 4 * (most + 1));
  }
  EXPECT_EQ(plan.heads().size(), 2u);
}

TEST(PagedPlanTest, SplitsTileTheKeysOfAHeadAndThePartialResults) {
  const PagedPlan plan = Plan(Attention(Mask::Causal()), {{1, 2000, 0}, {2, 300, 0}, {1, 0, 0}});
  std::map<int64_t, const PagedPlan::Item*> by_partial;
  for (const PagedPlan::Item& item : plan.items()) by_partial[item.partial] = &item;
  ASSERT_EQ(by_partial.size(), plan.items().size()) << "no two share memory";
  int64_t next_float = 0;
  for (const PagedPlan::Head& head : plan.heads()) {
    EXPECT_EQ(head.partial, next_float);
    int64_t next_key = 0;
    for (int64_t split = 0; split < head.splits; ++split) {
      const PagedPlan::Item& item = *by_partial.at(next_float);
      EXPECT_EQ(item.sequence, head.sequence);
      EXPECT_EQ(item.block.kv_head, head.kv_head);
      EXPECT_EQ(item.split.begin, next_key);
      next_key = item.split.end;
      next_float += SplitPartial::Floats(head.rows, 64);
    }
    EXPECT_EQ(next_key, (std::vector<int64_t>{2000, 300, 0})[head.sequence]);
  }
  EXPECT_EQ(next_float, plan.partial_floats());
  EXPECT_EQ(plan.heads().size(), 6u) << "a sequence without keys has rows to write, too";
}

TEST(PagedPlanTest, SplitsThatNobodySeesAreLeftOut) {
  const PagedPlan plan = Plan(Attention(Mask::Window(100, 0)), {{1, 5000, 0}});
  for (const PagedPlan::Item& item : plan.items()) EXPECT_GT(item.split.end, 4899);
  EXPECT_EQ(plan.items().size(), 2u) << "one split of each key head";
}

TEST(PagedPlanTest, DearestFirst) {
  const PagedPlan plan = Plan(Attention(Mask::Causal()), {{1, 100, 0}, {50, 2000, 0}, {1, 900, 0}, {90, 90, 0}});
  for (size_t i = 1; i < plan.items().size(); ++i) EXPECT_GE(plan.items()[i - 1].cost, plan.items()[i].cost);
}

TEST(PagedPlanTest, Statistics) {
  // One row of 8 heads over 100 keys: two tiles of 64 keys for each key head.
  const PagedPlan plan = Plan(Attention(Mask::Causal()), {{1, 100, 1}});
  EXPECT_EQ(plan.stats().tiles_computed, 4);
  EXPECT_EQ(plan.stats().tiles_skipped, 0);
  EXPECT_EQ(plan.stats().flops, 4.0 * 64 * 8 * 100);
  const double row = 64 * 2;                // bytes of a head
  const double keys = 2 * 100 * 2 * row;    // K and V, key heads, read
  const double appended = 2 * 2 * row * 2;  // K and V, key heads, read and written
  const double queries = 2 * 8 * row;       // Q and O
  const double lse = 8 * 4;
  EXPECT_EQ(plan.stats().hbm_bytes, keys + appended + queries + lse);
}

}  // namespace
}  // namespace tessera
