#include "kernels/cuda/paged/paged_plan.h"

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tessera::cuda::paged {
namespace {

constexpr PagedKernelEntry kKernel = {128, 16, nullptr};

// Sequences whose pointers nobody follows.
class PagedPlanTest : public ::testing::Test {
 protected:
  PagedSequence Sequence(int64_t q_len, int64_t kv_len, int64_t append_len) const {
    PagedSequence sequence;
    sequence.q_len = q_len;
    sequence.kv_len = kv_len;
    sequence.append_len = append_len;
    return sequence;
  }
  PagedPlan Plan(const std::vector<PagedSequence>& sequences, bool appends_itself = true) const {
    absl::StatusOr<PagedPlan> plan = PlanPaged(params_, sequences, kKernel, appends_itself);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *std::move(plan);
  }

  PagedParams params_ = {
      .attention = {.dtype = DType::kBFloat16, .q_heads = 8, .kv_heads = 2, .head_dim = 64, .mask = Mask::Causal()},
      .cache_dtype = CacheDType::kBFloat16};
};

TEST_F(PagedPlanTest, FewRowsAreSplitByKeysAndManyByRows) {
  const int64_t most = kMaxSplitRows / 4;
  const PagedPlan plan = Plan({Sequence(1, 2000, 0), Sequence(most, 2000, 0), Sequence(most + 1, 2000, 0)});
  ASSERT_EQ(plan.entries.size(), 3u);
  const PagedEntry& many = plan.entries[0];  // its items are the dearest
  EXPECT_EQ(many.q_len, most + 1);
  EXPECT_EQ(many.splits, 1);
  EXPECT_EQ(many.split_keys, 2000);
  EXPECT_EQ(many.row_blocks, 4) << "52 rows, the last 4 in a block of their own";
  for (int i : {1, 2}) {
    EXPECT_EQ(plan.entries[i].split_keys, SplitKeys(2000, 2));
    EXPECT_EQ(plan.entries[i].splits, (2000 + SplitKeys(2000, 2) - 1) / SplitKeys(2000, 2));
  }
  EXPECT_EQ(plan.entries[1].row_blocks, 1);
  EXPECT_EQ(plan.entries[2].row_blocks, 3);
}

TEST_F(PagedPlanTest, ItemsCountersAndPartialResultsTileTheirRanges) {
  const PagedPlan plan = Plan({Sequence(1, 5000, 1), Sequence(9, 1500, 0), Sequence(1, 30, 1), Sequence(40, 900, 40),
                               Sequence(0, 10, 0), Sequence(1, 0, 0)});
  ASSERT_EQ(plan.entries.size(), 5u) << "a sequence without keys has rows to write, too";
  uint32_t item = 0;
  int32_t counter = 0;
  int64_t partial = 0;
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const PagedEntry& entry = plan.entries[i];
    EXPECT_EQ(plan.first_items[i], item);
    const int64_t lanes = entry.row_blocks * 2;
    item += static_cast<uint32_t>(lanes * entry.splits);
    if (entry.splits == 1) continue;
    EXPECT_EQ(entry.first_counter, counter);
    EXPECT_EQ(entry.first_partial, partial);
    EXPECT_GE(entry.partial_floats, std::min(4 * entry.q_len, 16) * (64 + 2));
    EXPECT_EQ(entry.partial_floats % 4, 0) << "read in vectors of four";
    counter += static_cast<int32_t>(lanes);
    partial += lanes * entry.splits * entry.partial_floats;
  }
  EXPECT_EQ(plan.item_count, item);
  EXPECT_EQ(plan.counter_count, counter);
  EXPECT_EQ(plan.partial_floats, partial);
}

TEST_F(PagedPlanTest, ACutDependsOnTheSequenceAlone) {
  const PagedSequence sequence = Sequence(2, 30000, 2);
  const PagedPlan alone = Plan({sequence});
  std::vector<PagedSequence> batch(100, Sequence(1, 777, 1));
  batch.push_back(sequence);
  for (const PagedEntry& entry : Plan(batch).entries) {
    if (entry.kv_len != 30000) continue;
    EXPECT_EQ(entry.split_keys, alone.entries[0].split_keys);
    EXPECT_EQ(entry.splits, alone.entries[0].splits);
    EXPECT_EQ(entry.first_key, alone.entries[0].first_key);
    EXPECT_EQ(entry.row_blocks, alone.entries[0].row_blocks);
  }
}

TEST_F(PagedPlanTest, SplitsThatNobodySeesAreLeftOut) {
  params_.attention.mask = Mask::Window(100, 0);
  const PagedEntry entry = Plan({Sequence(1, 5000, 0)}).entries[0];
  EXPECT_EQ(entry.splits, 1);
  EXPECT_EQ(entry.first_key, 4608);
}

TEST_F(PagedPlanTest, BlocksAppendTheRowsThatTheyAloneRead) {
  const PagedPlan decode = Plan({Sequence(1, 2000, 1), Sequence(4, 2000, 4)});
  EXPECT_TRUE(decode.appends.empty());
  EXPECT_EQ(decode.entries[0].appends + decode.entries[1].appends, 2);
  EXPECT_EQ(Plan({Sequence(1, 2000, 1)}, /*appends_itself=*/false).appends.size(), 1u);
  EXPECT_EQ(Plan({Sequence(1, 2000, 1)}, /*appends_itself=*/false).entries[0].appends, 0);

  EXPECT_EQ(Plan({Sequence(5, 2000, 5)}).appends.size(), 1u) << "two row blocks";
  EXPECT_EQ(Plan({Sequence(0, 2000, 7)}).appends.size(), 1u) << "no row to attend";
  EXPECT_TRUE(Plan({Sequence(5, 2000, 0)}).appends.empty());
  params_.attention.mask = Mask::Window(10, 0);
  EXPECT_EQ(Plan({Sequence(1, 2000, 1900)}).appends.size(), 1u) << "keys that no row sees";
  EXPECT_TRUE(Plan({Sequence(1, 2000, 1)}).appends.empty());
}

TEST_F(PagedPlanTest, RefusesWhatNumbersDoNotHold) {
  const auto refused = [&](const std::vector<PagedSequence>& sequences) {
    return PlanPaged(params_, sequences, kKernel, true).status().code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused({Sequence(1, int64_t{kMaxLength} + 1, 0)}));
  EXPECT_TRUE(refused({Sequence(int64_t{kMaxLength} / 4 + 1, int64_t{kMaxLength}, 0)})) << "four heads a key head";
  EXPECT_FALSE(refused({Sequence(1, kMaxLength, 0)}));
  EXPECT_TRUE(refused(std::vector<PagedSequence>(64, Sequence(kMaxLength / 4, kMaxLength, 0)))) << "items";
}

TEST_F(PagedPlanTest, Statistics) {
  // Rows 0..7 are 32 stacked ones: two blocks of four tokens that see 197 and 201 keys, four tiles of 64 each.
  const ForwardStats stats = ModelPaged(params_, Sequence(8, 201, 0), kKernel);
  EXPECT_EQ(stats.tiles_computed, 2 * (4 + 4));
  EXPECT_EQ(stats.tiles_skipped, 0);
  EXPECT_EQ(stats.flops, 4.0 * 64 * 8 * (194 + 195 + 196 + 197 + 198 + 199 + 200 + 201));
  const ForwardStats early = ModelPaged(params_, Sequence(8, 196, 0), kKernel);
  EXPECT_EQ(early.tiles_computed, 2 * (3 + 4));
  EXPECT_EQ(early.tiles_skipped, 2);
}

}  // namespace
}  // namespace tessera::cuda::paged
