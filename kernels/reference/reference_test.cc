// The definition itself, against answers worked out by hand: what everything else is measured against.
#include "kernels/reference/reference.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/accuracy.h"
#include "kernels/testing/random_batch.h"

namespace tessera {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<SequenceLengths> Lengths(int64_t q_len, int64_t kv_len) { return {{q_len, kv_len}}; }

// One head of 8 elements. The score of (row, key) is scores[key] for every row; every element of v[key] is values[key].
RandomBatch BatchOf(AttentionParams params, int64_t rows, const std::vector<float>& scores,
                    const std::vector<float>& values) {
  params.head_dim = 8;
  RandomBatch batch(params, Lengths(rows, static_cast<int64_t>(scores.size())), 1);
  for (int64_t row = 0; row < rows; ++row) {
    batch[0].q.SetRow(row, 0, 0.0f);
    batch[0].q.Set(row, 0, 0, 1.0f);
  }
  for (size_t key = 0; key < scores.size(); ++key) {
    batch[0].k.SetRow(static_cast<int64_t>(key), 0, 0.0f);
    batch[0].k.Set(static_cast<int64_t>(key), 0, 0, scores[key]);
    batch[0].v.SetRow(static_cast<int64_t>(key), 0, values[key]);
  }
  return batch;
}

ReferenceOutput Attend(RandomBatch& batch) { return AttendInDouble(batch.params(), batch.View(0)); }

TEST(ReferenceTest, WeighsByTheExponential) {
  RandomBatch batch = BatchOf({.scale = 2.0f}, 1, {0.0f, 0.5f}, {1.0f, 3.0f});
  const ReferenceOutput output = Attend(batch);
  const double e = std::exp(1.0);
  for (int c = 0; c < 8; ++c) EXPECT_DOUBLE_EQ(output.o[c], (1 + 3 * e) / (1 + e));
  EXPECT_DOUBLE_EQ(output.lse[0], std::log(1 + e));
}

TEST(ReferenceTest, SoftcapBoundsTheScaledScore) {
  RandomBatch batch = BatchOf({.scale = 3.0f, .softcap = 2.0f}, 1, {1.0f, -100.0f}, {5.0f, 0.0f});
  const ReferenceOutput output = Attend(batch);
  const double high = std::exp(2 * std::tanh(1.5)), low = std::exp(-2.0);
  EXPECT_DOUBLE_EQ(output.o[0], 5 * high / (high + low));
  EXPECT_DOUBLE_EQ(output.lse[0], std::log(high + low));
}

TEST(ReferenceTest, RowsSeeTheKeysOfTheMaskOnly) {
  // Scores of 0, so that a row's o is the mean of the keys it sees, and its LSE the logarithm of their number.
  const std::vector<float> scores(4, 0.0f), values = {1.0f, 10.0f, 100.0f, 1000.0f};
  const struct {
    Mask mask;
    int64_t rows;
    std::vector<double> sums, counts;
  } cases[] = {
      {Mask::Full(), 2, {1111, 1111}, {4, 4}},
      {Mask::Causal(), 2, {111, 1111}, {3, 4}},  // the last row stands at the last key
      {Mask::Causal(), 5, {0, 1, 11, 111, 1111}, {0, 1, 2, 3, 4}},
      {Mask::Window(1, 0), 3, {11, 110, 1100}, {2, 2, 2}},
      {Mask::Window(0, 1), 3, {110, 1100, 1000}, {2, 2, 1}},
      {Mask::Window(Mask::kUnbounded, 1), 3, {111, 1111, 1111}, {3, 4, 4}},
  };
  for (const auto& [mask, rows, sums, counts] : cases) {
    RandomBatch batch = BatchOf({.mask = mask}, rows, scores, values);
    const ReferenceOutput output = Attend(batch);
    for (int64_t row = 0; row < rows; ++row) {
      SCOPED_TRACE(::testing::Message() << mask.left << "," << mask.right << " row " << row);
      EXPECT_DOUBLE_EQ(output.o[row * 8], counts[row] == 0 ? 0 : sums[row] / counts[row]);
      EXPECT_DOUBLE_EQ(output.lse[row], std::log(counts[row]));  // -inf for none
    }
  }
}

TEST(ReferenceTest, QueryHeadsReadTheirKeyHead) {
  RandomBatch batch({.q_heads = 6, .kv_heads = 2, .head_dim = 8}, Lengths(1, 1), 1);
  batch[0].v.SetRow(0, 0, 7.0f);
  batch[0].v.SetRow(0, 1, 9.0f);
  const ReferenceOutput output = Attend(batch);
  for (int head = 0; head < 6; ++head) EXPECT_EQ(output.o[head * 8], head < 3 ? 7.0 : 9.0) << head;
}

TEST(ReferenceTest, NaNIsSeenWhereverItStandsAmongTheKeys) {
  for (const std::vector<float>& scores :
       {std::vector<float>{kNaN, 1.0f, 2.0f}, {1.0f, kNaN, -kInf}, {kNaN, -kInf, -kInf}, {-kInf, -kInf, kNaN}}) {
    RandomBatch batch = BatchOf({}, 1, scores, {1.0f, 2.0f, 3.0f});
    // An infinity times the zeros of q would be NaN of its own: leave only the one element.
    batch[0].q.SetRow(0, 0, 1.0f);
    const ReferenceOutput output = Attend(batch);
    SCOPED_TRACE(::testing::Message() << scores[0] << " " << scores[1] << " " << scores[2]);
    EXPECT_TRUE(std::isnan(output.o[0]));
    EXPECT_TRUE(std::isnan(output.lse[0]));
  }
}

TEST(ReferenceTest, ScoresOfMinusInfinityAreKeysUnseen) {
  RandomBatch batch = BatchOf({}, 1, {-kInf, -kInf}, {1.0f, 2.0f});
  batch[0].q.SetRow(0, 0, 1.0f);
  const ReferenceOutput output = Attend(batch);
  EXPECT_EQ(output.o[0], 0.0);
  EXPECT_EQ(output.lse[0], -kInf);
}

TEST(ReferenceTest, TheBackendRoundsTheSameResults) {
  const auto backend = MakeReferenceBackend();
  EXPECT_EQ(backend->name(), "reference");
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    RandomBatch batch({.dtype = dtype, .q_heads = 4, .kv_heads = 2, .head_dim = 16, .mask = Mask::Causal()},
                      Lengths(5, 7), 2, TensorLayout::kPadded);
    ForwardStats stats;
    ASSERT_TRUE(backend->Forward(batch.params(), batch.Views(), nullptr, &stats).ok());
    const Deviation deviation = DeviationFrom(Attend(batch), batch.params(), batch[0]);
    const double ulp = dtype == DType::kFloat32 ? 0x1p-24 : dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-8;
    EXPECT_LE(deviation.o, 4 * ulp) << Name(dtype);  // values below 4, half an ulp each
    EXPECT_LE(deviation.lse, 0x1p-24);
    EXPECT_TRUE(batch[0].o.PaddingIsPoison());
    EXPECT_TRUE(batch[0].lse.PaddingIsPoison());
    EXPECT_EQ(stats.flops, 4.0 * 16 * 4 * (3 + 4 + 5 + 6 + 7));
    EXPECT_EQ(stats.tiles_computed, 0);
  }
}

}  // namespace
}  // namespace tessera
