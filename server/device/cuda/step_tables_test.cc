#include "server/device/cuda/step_tables.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using testing::ElementsAre;

ExtendItem Item(absl::Span<const PagedSequence> sequences) {
  return {.fills = {}, .copies = {}, .input = {}, .output = {}, .sequences = sequences};
}

// What the tables come to, and where they are.
std::vector<std::byte> Written(const StepTables& tables) {
  std::vector<std::byte> memory(tables.bytes());
  tables.WriteTo(memory.data());
  return memory;
}

std::vector<float> Floats(const float* at, int count) { return {at, at + count}; }

TEST(StepTables, OnlyPagesThatAStepLooksIntoAreTaken) {
  PagedParams params;
  params.page_tokens = 4;
  const std::vector<int32_t> first = {7, 3, 9, 1}, second = {5}, third = {8, 6};
  std::vector<PagedSequence> of_first(2), of_second(2);
  of_first[0].kv_len = 9;  // of 4 pages it needs 3
  of_first[0].pages = first;
  of_first[1].kv_len = 4;
  of_first[1].pages = second;
  of_second[1].kv_len = 5;  // the one before is empty
  of_second[1].pages = third;
  const std::vector<ExtendItem> items = {Item(of_first), Item(of_second)};
  const StepTables tables(params, items);
  EXPECT_EQ(tables.bytes(), 6 * sizeof(int32_t));
  const std::vector<std::byte> memory = Written(tables);
  EXPECT_THAT(tables.View(0, of_first[0], memory.data()).pages, ElementsAre(7, 3, 9));
  EXPECT_THAT(tables.View(1, of_first[1], memory.data()).pages, ElementsAre(5));
  EXPECT_THAT(tables.View(2, of_second[0], memory.data()).pages, ElementsAre());
  EXPECT_THAT(tables.View(3, of_second[1], memory.data()).pages, ElementsAre(8, 6));
  EXPECT_EQ(tables.View(0, of_first[0], memory.data()).layer.k_scales, nullptr);
}

TEST(StepTables, ScalesOfALayerAreTakenOnceForNeighbours) {
  PagedParams params;
  params.attention.dtype = DType::kFloat16;
  params.attention.kv_heads = params.attention.q_heads = 2;
  params.cache_dtype = CacheDType::kFloat8;
  params.page_tokens = 4;
  const std::vector<float> scales = {1, 2, 3, 4, 5, 6, 7, 8};  // [layer, k and v, head]
  const std::vector<int32_t> table = {7};
  std::vector<PagedSequence> sequences(4);
  for (size_t i = 0; i < 4; ++i) {
    const size_t layer = i == 2 ? 1 : 0;
    sequences[i].kv_len = 1;
    sequences[i].pages = table;
    sequences[i].layer.k_scales = &scales[4 * layer];
    sequences[i].layer.v_scales = &scales[4 * layer + 2];
  }
  const std::vector<ExtendItem> items = {Item({&sequences[0], 1}), Item({&sequences[1], 3})};
  const StepTables tables(params, items);
  EXPECT_EQ(tables.bytes(), 4 * sizeof(int32_t) + 3 * 4 * sizeof(float));
  const std::vector<std::byte> memory = Written(tables);
  for (size_t i = 0; i < 4; ++i) {
    const PagedSequence view = tables.View(i, sequences[i], memory.data());
    EXPECT_THAT(view.pages, ElementsAre(7)) << i;
    EXPECT_NE(view.layer.k_scales, sequences[i].layer.k_scales) << i;
    EXPECT_EQ(Floats(view.layer.k_scales, 2), Floats(sequences[i].layer.k_scales, 2)) << i;
    EXPECT_EQ(Floats(view.layer.v_scales, 2), Floats(sequences[i].layer.v_scales, 2)) << i;
  }
}

// Layers of two sequences, whose tables have so many pages at most; the longest is neither first nor last.
class RepeatedStepTables : public ::testing::Test {
 protected:
  void Make(size_t pages) {
    first_.resize(pages);
    std::iota(first_.begin(), first_.end(), 0);
    second_.resize(pages / 2);
    std::iota(second_.begin(), second_.end(), 1'000'000);
    params_.page_tokens = 16;
    sequences_ = {Layer(first_, pages / 2), Layer(second_, pages / 2), Layer(first_, pages), Layer(first_, 0),
                  Layer(first_, pages - 1)};
    items_ = {{.fills = {}, .copies = {}, .input = {}, .output = {}, .sequences = {sequences_.data(), 2}},
              {.fills = {}, .copies = {}, .input = {}, .output = {}, .sequences = {sequences_.data() + 2, 3}}};
  }

  // The views must be of the same pages.
  void Check(const StepTables& tables) const {
    std::vector<std::byte> memory(tables.bytes());
    tables.WriteTo(memory.data());
    for (size_t i = 0; i < sequences_.size(); ++i) {
      EXPECT_EQ(tables.View(i, sequences_[i], memory.data()).pages, sequences_[i].pages) << i;
    }
  }

  PagedSequence Layer(const std::vector<int32_t>& table, size_t pages) const {
    PagedSequence sequence;
    sequence.kv_len = static_cast<int64_t>(pages) * params_.page_tokens;
    sequence.pages = absl::MakeConstSpan(table).first(pages);
    return sequence;
  }

  PagedParams params_;
  std::vector<int32_t> first_;
  std::vector<int32_t> second_;
  std::vector<PagedSequence> sequences_;
  std::vector<ExtendItem> items_;
};

TEST_F(RepeatedStepTables, SmallOnesAreTakenAsTheyCome) {
  Make(100);
  const StepTables tables(params_, items_);
  EXPECT_EQ(tables.bytes(), (50 + 50 + 100 + 0 + 99) * sizeof(int32_t));
  Check(tables);
}

TEST_F(RepeatedStepTables, LargeOnesOfOneSequenceAreTakenOnce) {
  Make(200'000);
  const StepTables tables(params_, items_);
  EXPECT_EQ(tables.bytes(), (200'000 + 100'000) * sizeof(int32_t));
  Check(tables);
}

}  // namespace
}  // namespace tessera
