// The CPU backend against the reference in double, over random shapes, on every SIMD target of this machine: its error
// is at most twice that of standard attention in the same dtype, plus a small tolerance.
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/highway.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/standard/standard.h"
#include "kernels/testing/accuracy.h"
#include "kernels/testing/random_batch.h"
#include "kernels/testing/sequence_accuracy.h"
#include "tests/random/seed.h"

namespace tessera {
namespace {

class ForwardAccuracyTest : public ::testing::Test {
 protected:
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  void ExpectAccurate(RandomBatch& batch) {
    const AttentionParams& params = batch.params();
    SCOPED_TRACE(::testing::Message() << Name(params.dtype) << " heads " << params.q_heads << "/" << params.kv_heads
                                      << " d " << params.head_dim << " scale " << params.scale << " mask "
                                      << params.mask.left << "," << params.mask.right << " softcap " << params.softcap);
    std::vector<ReferenceOutput> expected;
    for (size_t i = 0; i < batch.size(); ++i) expected.push_back(AttendInDouble(params, batch.View(i)));
    ASSERT_TRUE(standard_->Forward(params, batch.Views(), nullptr, nullptr).ok());
    std::vector<Deviation> standard;
    for (size_t i = 0; i < batch.size(); ++i) {
      standard.push_back(DeviationFrom(expected[i], params, batch[i]));
      ASSERT_TRUE(std::isfinite(standard[i].o) && std::isfinite(standard[i].lse)) << "anything is within twice that";
    }
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      SCOPED_TRACE(hwy::TargetName(target));
      hwy::SetSupportedTargetsForTest(target);
      batch.PoisonOutputs();
      ASSERT_TRUE(cpu_->Forward(params, batch.Views(), nullptr, nullptr).ok());
      for (size_t i = 0; i < batch.size(); ++i) ExpectSequenceAccurate(standard[i], expected[i], params, batch[i]);
    }
    hwy::SetSupportedTargetsForTest(0);
  }

  std::unique_ptr<AttentionBackend> cpu_ = MakeCpuBackend(2);
  std::unique_ptr<AttentionBackend> standard_ = MakeStandardBackend(2);
};

TEST_F(ForwardAccuracyTest, RandomShapes) {
  std::mt19937_64 random(RandomSeed());
  const int64_t lengths[] = {0, 1, 2, 3, 4, 15, 16, 17, 47, 48, 49, 63, 64, 65, 95, 96, 97, 128, 191, 192, 193, 257};
  const int64_t groups[] = {1, 2, 3, 4, 5, 7, 8, 16};
  const TensorLayout layouts[] = {TensorLayout::kPacked, TensorLayout::kPadded, TensorLayout::kHeadsOuter};
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(::testing::Message() << "trial " << trial);
    AttentionParams params;
    params.dtype = static_cast<DType>(trial % 3);
    params.kv_heads = 1 + random() % 3;
    params.q_heads = params.kv_heads * groups[random() % std::size(groups)];
    params.head_dim = kHeadDimStep * (1 + random() % (kMaxHeadDim / kHeadDimStep));
    params.scale = (random() % 8 == 0 ? -1.0f : 1.0f) / std::sqrt(static_cast<float>(params.head_dim));
    if (random() % 16 == 0) params.scale = 0;
    switch (random() % 4) {
      case 0:
        break;
      case 1:
        params.mask = Mask::Causal();
        break;
      default:
        params.mask = Mask::Window(static_cast<int64_t>(random() % 150) - 1, static_cast<int64_t>(random() % 80) - 1);
    }
    if (random() % 4 == 0) params.softcap = 0.5f + random() % 30;
    std::vector<SequenceLengths> sequences;
    for (size_t i = 0; i < 1 + random() % 3; ++i) {
      sequences.push_back({lengths[random() % std::size(lengths)], lengths[random() % std::size(lengths)]});
    }
    RandomBatch batch(params, sequences, random(), layouts[random() % 3]);
    ExpectAccurate(batch);
  }
}

TEST_F(ForwardAccuracyTest, EveryHeadDim) {
  for (int head_dim = kMinHeadDim; head_dim <= kMaxHeadDim; head_dim += kHeadDimStep) {
    const AttentionParams params{.dtype = static_cast<DType>(head_dim / kHeadDimStep % 3),
                                 .q_heads = 2,
                                 .kv_heads = 1,
                                 .head_dim = head_dim,
                                 .scale = 1 / std::sqrt(static_cast<float>(head_dim)),
                                 .mask = Mask::Causal()};
    RandomBatch batch(params, std::vector<SequenceLengths>{{33, 70}}, head_dim);
    ExpectAccurate(batch);
  }
}

TEST_F(ForwardAccuracyTest, ManyQueryHeadsForOneKeyHead) {
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    const AttentionParams params{
        .dtype = dtype, .q_heads = 64, .kv_heads = 1, .head_dim = 64, .scale = 0.125f, .mask = Mask::Causal()};
    RandomBatch batch(params, std::vector<SequenceLengths>{{1, 130}, {4, 67}, {7, 7}}, 3);
    ExpectAccurate(batch);
  }
}

TEST_F(ForwardAccuracyTest, LongRowsKeepTheirAccuracy) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const AttentionParams params{.dtype = dtype, .head_dim = 32, .scale = 0.177f};
    RandomBatch batch(params, std::vector<SequenceLengths>{{5, 20000}}, 8);
    ExpectAccurate(batch);
  }
}

TEST_F(ForwardAccuracyTest, LargeLogits) {
  // q.k of order 3e3 and more: the weights are all but one-hot, and sums without rescaling would overflow.
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    const AttentionParams params{.dtype = dtype, .q_heads = 2, .kv_heads = 2, .head_dim = 64, .scale = 1.0f};
    RandomBatch batch(params, std::vector<SequenceLengths>{{70, 200}}, 21, TensorLayout::kPacked, /*deviation=*/8.0f);
    ExpectAccurate(batch);
  }
}

TEST_F(ForwardAccuracyTest, ScalesOfEverySizeAndSign) {
  for (float scale : {0.0f, 1e-30f, -1e-30f, 1e-3f, -0.125f, 3.0f}) {
    const AttentionParams params{.head_dim = 32, .scale = scale, .mask = Mask::Window(20, 3)};
    RandomBatch batch(params, std::vector<SequenceLengths>{{50, 90}}, 13, TensorLayout::kPacked, 0.5f);
    ExpectAccurate(batch);
  }
}

}  // namespace
}  // namespace tessera
