// The CPU's paged attention against the reference in double, on every SIMD target of this machine: its error is at most
// twice that of standard attention on the same rows, plus a small tolerance; the pages hold the new rows afterwards,
// and nothing else has been touched or read.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/highway.h"
#include "kernels/cpu/paged_backend.h"
#include "kernels/reference/paged_reference.h"
#include "kernels/standard/standard.h"
#include "kernels/testing/accuracy.h"
#include "kernels/testing/paged_batch.h"
#include "kernels/testing/sequence_accuracy.h"
#include "tests/random/seed.h"

namespace tessera {
namespace {

class PagedAccuracyTest : public ::testing::Test {
 protected:
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  void ExpectAccurate(PagedBatch& batch) {
    const AttentionParams& attention = batch.params().attention;
    SCOPED_TRACE(::testing::Message() << Name(attention.dtype) << " in " << Name(batch.params().cache_dtype)
                                      << " pages of " << batch.params().page_tokens << ", heads " << attention.q_heads
                                      << "/" << attention.kv_heads << " d " << attention.head_dim << " mask "
                                      << attention.mask.left << "," << attention.mask.right << " softcap "
                                      << attention.softcap);
    RandomBatch& contiguous = batch.contiguous();
    std::vector<ReferenceOutput> expected;
    for (size_t i = 0; i < batch.size(); ++i) expected.push_back(AttendInDouble(attention, contiguous.View(i)));
    ASSERT_TRUE(standard_->Forward(attention, contiguous.Views(), nullptr, nullptr).ok());
    std::vector<Deviation> standard;
    for (size_t i = 0; i < batch.size(); ++i) {
      standard.push_back(DeviationFrom(expected[i], attention, contiguous[i]));
      ASSERT_TRUE(std::isfinite(standard[i].o) && std::isfinite(standard[i].lse)) << "anything is within twice that";
    }
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      SCOPED_TRACE(hwy::TargetName(target));
      hwy::SetSupportedTargetsForTest(target);
      contiguous.PoisonOutputs();
      batch.ForgetAppended();
      const absl::Status status = paged_->Extend(batch.params(), batch.Views(), nullptr, nullptr);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_TRUE(batch.PagesAreAsExpected());
      for (size_t i = 0; i < batch.size(); ++i)
        ExpectSequenceAccurate(standard[i], expected[i], attention, contiguous[i]);
    }
    hwy::SetSupportedTargetsForTest(0);
  }

  std::unique_ptr<PagedAttentionBackend> paged_ = MakeCpuPagedBackend(2);
  std::unique_ptr<AttentionBackend> standard_ = MakeStandardBackend(2);
};

CacheDType CacheTypeOf(DType dtype, bool fp8) { return fp8 ? CacheDType::kFloat8 : CacheDTypeFor(dtype); }

TEST_F(PagedAccuracyTest, RandomShapes) {
  std::mt19937_64 random(RandomSeed());
  const int64_t groups[] = {1, 2, 3, 4, 5, 7, 8, 16};
  const int64_t page_sizes[] = {1, 2, 8, 16, 32, 64, 128};
  const PageLayout layouts[] = {PageLayout::kTokensOuter, PageLayout::kHeadsOuter, PageLayout::kPadded};
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(::testing::Message() << "trial " << trial);
    AttentionParams attention;
    attention.dtype = static_cast<DType>(trial % 3);
    attention.kv_heads = 1 + random() % 3;
    attention.q_heads = attention.kv_heads * groups[random() % std::size(groups)];
    attention.head_dim = kHeadDimStep * (1 + random() % (kMaxHeadDim / kHeadDimStep));
    attention.scale = (random() % 8 == 0 ? -1.0f : 1.0f) / std::sqrt(static_cast<float>(attention.head_dim));
    switch (random() % 4) {
      case 0:
        break;
      case 1:
        attention.mask = Mask::Window(static_cast<int64_t>(random() % 300) - 1, static_cast<int64_t>(random() % 9) - 1);
        break;
      default:
        attention.mask = Mask::Causal();
    }
    if (random() % 4 == 0) attention.softcap = 0.5f + random() % 30;
    const PageShape shape{.cache_dtype = CacheTypeOf(attention.dtype, random() % 3 == 0),
                          .page_tokens = page_sizes[random() % std::size(page_sizes)],
                          .layout = layouts[random() % 3]};
    const int64_t p = shape.page_tokens;
    const int64_t lengths[] = {
        0, 1, p - 1, p, p + 1, 3 * p, 63, 65, 400, kMinSplitKeys - 1, kMinSplitKeys, kMinSplitKeys + 1, 1111};
    const int64_t rows[] = {0, 1, 1, 1, 2, 3, 5, 17, 49, 90};
    std::vector<PagedLengths> sequences;
    for (size_t i = 0; i < 1 + random() % 3; ++i) {
      PagedLengths n{.q_len = rows[random() % std::size(rows)], .kv_len = lengths[random() % std::size(lengths)]};
      n.append_len = random() % 3 == 0 ? 0 : std::min(n.q_len, n.kv_len);
      sequences.push_back(n);
    }
    PagedBatch batch(attention, shape, sequences, random());
    ExpectAccurate(batch);
  }
}

TEST_F(PagedAccuracyTest, LengthsAroundThePagesAndTheSplits) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const int64_t page : {int64_t{1}, int64_t{16}, int64_t{64}}) {
      std::vector<PagedLengths> sequences = {{1, 0, 0}, {1, 1, 1}, {1, 1, 0}};
      for (const int64_t edge : {page, 2 * page, kMinSplitKeys, 2 * kMinSplitKeys}) {
        for (const int64_t length : {edge - 1, edge, edge + 1})
          sequences.push_back({1, length, std::min<int64_t>(length, 1)});
      }
      const AttentionParams attention{
          .dtype = dtype, .q_heads = 4, .kv_heads = 1, .head_dim = 40, .scale = 0.158f, .mask = Mask::Causal()};
      PagedBatch batch(attention, {CacheDTypeFor(dtype), page}, sequences, 11);
      ExpectAccurate(batch);
    }
  }
}

TEST_F(PagedAccuracyTest, EveryHeadDimDecodes) {
  for (int head_dim = kMinHeadDim; head_dim <= kMaxHeadDim; head_dim += kHeadDimStep) {
    const DType dtype = static_cast<DType>(head_dim / kHeadDimStep % 3);
    const AttentionParams attention{.dtype = dtype,
                                    .q_heads = 6,
                                    .kv_heads = 2,
                                    .head_dim = head_dim,
                                    .scale = 1 / std::sqrt(static_cast<float>(head_dim)),
                                    .mask = Mask::Causal()};
    PagedBatch batch(attention, {CacheTypeOf(dtype, head_dim % 5 == 0), 16},
                     std::vector<PagedLengths>{{1, 70, 1}, {2, 33, 2}}, head_dim);
    ExpectAccurate(batch);
  }
}

TEST_F(PagedAccuracyTest, LongContexts) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const AttentionParams attention{
        .dtype = dtype, .q_heads = 2, .kv_heads = 1, .head_dim = 32, .scale = 0.177f, .mask = Mask::Causal()};
    PagedBatch batch(attention, {CacheDTypeFor(dtype), 64}, std::vector<PagedLengths>{{1, 20000, 1}, {40, 5000, 40}},
                     8);
    ExpectAccurate(batch);
  }
}

TEST_F(PagedAccuracyTest, LargeLogits) {
  // q.k of order 3e3 and more: what splits are combined by must not be rounded to a LSE of that size.
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    const AttentionParams attention{.dtype = dtype, .q_heads = 2, .kv_heads = 2, .head_dim = 64, .scale = 1.0f};
    PagedBatch batch(attention, {CacheDTypeFor(dtype), 16}, std::vector<PagedLengths>{{1, 1500, 1}, {70, 300, 0}}, 21,
                     /*deviation=*/8.0f);
    ExpectAccurate(batch);
  }
}

TEST_F(PagedAccuracyTest, ScalesOfFp8NeedNotBePowersOfTwo) {
  const AttentionParams attention{.q_heads = 4, .kv_heads = 2, .head_dim = 64, .scale = 0.125f, .mask = Mask::Causal()};
  PagedBatch batch(attention, {CacheDType::kFloat8, 16}, std::vector<PagedLengths>{{1, 600, 1}, {60, 200, 60}}, 4);
  const float k_scales[] = {0.3f, 1.7f};
  const float v_scales[] = {0.9f, 0.01f};
  std::vector<PagedSequence> views = batch.Views();
  for (size_t i = 0; i < views.size(); ++i) {
    views[i].layer.k_scales = k_scales;
    views[i].layer.v_scales = v_scales;
  }
  ASSERT_TRUE(paged_->Extend(batch.params(), views, nullptr, nullptr).ok());
  for (size_t i = 0; i < views.size(); ++i) {
    const ReferenceOutput expected = AttendPagedInDouble(batch.params(), views[i]);
    const Deviation deviation = DeviationFrom(expected, attention, batch.contiguous()[i]);
    EXPECT_LE(deviation.o, 2e-5) << "values of up to about ten, in float32";
    EXPECT_LE(deviation.lse, 1e-5);
  }
}

}  // namespace
}  // namespace tessera
