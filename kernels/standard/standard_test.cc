// The baseline against the reference in double. Other backends are held to twice its error, which means something only
// while that error is itself that of a few roundings.
#include "kernels/standard/standard.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/highway.h"
#include "kernels/testing/accuracy.h"
#include "kernels/testing/random_batch.h"
#include "tests/random/seed.h"

namespace tessera {
namespace {

class StandardTest : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  std::unique_ptr<AttentionBackend> standard_ = MakeStandardBackend(2);
};

// Half an ulp of 1 in what is stored between the steps.
double Rounding(DType dtype) {
  return dtype == DType::kFloat32 ? 0x1p-24 : dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-8;
}

TEST_P(StandardTest, ErrorIsAFewRoundings) {
  std::mt19937_64 random(RandomSeed());
  const Mask masks[] = {Mask::Full(), Mask::Causal(), Mask::Window(20, 3), Mask::Window(Mask::kUnbounded, 40)};
  const int64_t lengths[] = {0, 1, 5, 8, 31, 32, 33, 100};
  for (int trial = 0; trial < 30; ++trial) {
    AttentionParams params;
    params.dtype = static_cast<DType>(trial % 3);
    params.kv_heads = 1 + random() % 2;
    params.q_heads = params.kv_heads * (1 + random() % 3);
    params.head_dim = kHeadDimStep * (1 + random() % (kMaxHeadDim / kHeadDimStep));
    params.scale = 1 / std::sqrt(static_cast<float>(params.head_dim));
    params.mask = masks[random() % std::size(masks)];
    if (random() % 3 == 0) params.softcap = 3.0f;
    const std::vector<SequenceLengths> sequences = {{lengths[random() % 8], lengths[random() % 8]},
                                                    {lengths[random() % 8], lengths[random() % 8]}};
    RandomBatch batch(params, sequences, random(), TensorLayout::kPadded);
    ASSERT_TRUE(standard_->Forward(params, batch.Views(), nullptr, nullptr).ok());
    for (size_t i = 0; i < batch.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << "trial " << trial << " " << Name(params.dtype) << " d " << params.head_dim
                                        << " " << batch[i].lengths.q_len << "x" << batch[i].lengths.kv_len);
      const Deviation deviation = DeviationFrom(AttendInDouble(params, batch.View(i)), params, batch[i]);
      // Scores below 8 and values below 6, each step rounded: S moves o most. In float32 the sums of up to 256 products
      // round as much as the steps do.
      const double sums = params.dtype == DType::kFloat32 ? 4 : 1;
      EXPECT_LE(deviation.o, 32 * sums * Rounding(params.dtype));
      EXPECT_LE(deviation.lse, 16 * sums * Rounding(params.dtype));
      EXPECT_TRUE(batch[i].o.PaddingIsPoison());
      EXPECT_TRUE(batch[i].lse.PaddingIsPoison());
    }
  }
}

TEST_P(StandardTest, NaNIsSeenWhereTheReferenceSeesIt) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (Mask mask : {Mask::Full(), Mask::Causal()}) {
    RandomBatch batch({.head_dim = 16, .scale = 0.25f, .mask = mask}, std::vector<SequenceLengths>{{40, 40}}, 1);
    for (int64_t row = 0; row < 40; ++row) batch[0].q.SetRow(row, 0, 1.0f);
    for (int64_t key = 0; key < 40; ++key) batch[0].k.SetRow(key, 0, key == 7 ? kNaN : key < 5 ? 0.5f : -kInf);
    batch[0].v.SetRow(30, 0, kNaN);
    ASSERT_TRUE(standard_->Forward(batch.params(), batch.Views(), nullptr, nullptr).ok());
    const Deviation deviation = DeviationFrom(AttendInDouble(batch.params(), batch.View(0)), batch.params(), batch[0]);
    EXPECT_LE(deviation.o, 1e-6);
    EXPECT_LE(deviation.lse, 1e-6);
    EXPECT_TRUE(std::isnan(batch[0].lse.Get(39, 0, 0)));
  }
}

TEST_P(StandardTest, CountsWorkAndWholeScores) {
  ForwardStats stats;
  const AttentionParams params{.dtype = DType::kFloat16, .q_heads = 4, .kv_heads = 2, .head_dim = 8};
  RandomBatch batch(params, std::vector<SequenceLengths>{{3, 5}}, 1);
  ASSERT_TRUE(standard_->Forward(params, batch.Views(), nullptr, &stats).ok());
  EXPECT_EQ(stats.flops, 4.0 * 8 * 4 * 3 * 5);
  // For each query head Q, O: 3 x 8 and K, V: 5 x 8 once; S, P: 3 x 5 written and read.
  EXPECT_EQ(stats.hbm_bytes, 4.0 * 2 * (2 * 3 * 8 + 2 * 5 * 8 + 4 * 3 * 5));
}

INSTANTIATE_TEST_SUITE_P(Targets, StandardTest, ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return std::string(hwy::TargetName(target.param)); });

}  // namespace
}  // namespace tessera
