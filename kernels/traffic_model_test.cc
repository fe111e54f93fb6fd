#include "kernels/traffic_model.h"

#include "gtest/gtest.h"
#include "kernels/mask.h"

namespace tessera {
namespace {

constexpr int64_t kMiB = 1024 * 1024;

TEST(TrafficModelTest, TheArticlesTable) {
  const TrafficTable table = ModelTraffic(/*n=*/4096, /*tile=*/128, /*head_dim=*/128, /*element_bytes=*/2);
  const struct {
    const char* operand;
    int64_t standard_read, standard_write, tiled_read, tiled_write;  // MiB
  } expected[] = {{"Q", 1, 0, 1, 0},   {"K", 1, 0, 32, 0},  {"V", 1, 0, 32, 0},
                  {"S", 32, 32, 0, 0}, {"P", 32, 32, 0, 0}, {"O", 0, 1, 0, 1}};
  for (int i = 0; i < 6; ++i) {
    const TrafficRow& row = table.rows[i];
    EXPECT_EQ(row.operand, expected[i].operand);
    EXPECT_EQ(row.standard_read, expected[i].standard_read * kMiB) << row.operand;
    EXPECT_EQ(row.standard_write, expected[i].standard_write * kMiB) << row.operand;
    EXPECT_EQ(row.tiled_read, expected[i].tiled_read * kMiB) << row.operand;
    EXPECT_EQ(row.tiled_write, expected[i].tiled_write * kMiB) << row.operand;
  }
  const TrafficRow total = table.Total();
  EXPECT_EQ(total.standard_read, 67 * kMiB);
  EXPECT_EQ(total.standard_write, 65 * kMiB);
  EXPECT_EQ(total.tiled_read, 65 * kMiB);
  EXPECT_EQ(total.tiled_write, 1 * kMiB);
}

TEST(TrafficModelTest, ABlockThatIsNotFullReadsAllKeysToo) {
  EXPECT_EQ(ModelTraffic(129, 128, 64, 2).rows[1].tiled_read, 2 * 129 * 64 * 2);
}

TEST(TrafficModelTest, Flops) { EXPECT_EQ(ModelFlops(4096, 128), 4.0 * 4096 * 4096 * 128); }

TEST(TrafficModelTest, ForwardAgreesWithTheTableForOneHead) {
  const AttentionParams params{.dtype = DType::kFloat16, .head_dim = 128};
  const SequenceView sequence{.q_len = 4096, .kv_len = 4096};
  EXPECT_EQ(ForwardBytes(params, sequence, 128), 66.0 * kMiB);
  EXPECT_EQ(ForwardFlops(params, sequence), ModelFlops(4096, 128));
}

TEST(TrafficModelTest, ForwardCountsVisibleKeysOfEachBlock) {
  const AttentionParams params{.q_heads = 6, .kv_heads = 2, .head_dim = 8, .mask = Mask::Causal()};
  float lse = 0;
  const SequenceView sequence{.q_len = 10, .kv_len = 12, .lse = &lse};
  // 30 stacked rows in blocks of 12: tokens 0-3, 4-7, 8-9, whose last rows stand at positions 5, 9, 11.
  const double keys = 6 + 10 + 12;
  const double expected = 2 * 10 * 6 * 8 * 4 + 2 * keys * 2 * 8 * 4 + 10 * 6 * 4;
  EXPECT_EQ(ForwardBytes(params, sequence, 12), expected);
  // Rows see 3, 4, .., 12 keys.
  EXPECT_EQ(ForwardFlops(params, sequence), 4.0 * 8 * 6 * 75);
}

}  // namespace
}  // namespace tessera
