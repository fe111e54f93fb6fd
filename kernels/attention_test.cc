#include "kernels/attention.h"

#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/random_batch.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

AttentionParams GoodParams() { return {.q_heads = 8, .kv_heads = 2, .head_dim = 64, .scale = 0.125f}; }

void ExpectRefused(const absl::Status& status, const char* field, const char* limit) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(field), HasSubstr(limit)));
}

TEST(DTypeTest, NamesAndSizes) {
  EXPECT_EQ(Name(DType::kFloat32), "float32");
  EXPECT_EQ(Name(DType::kFloat16), "float16");
  EXPECT_EQ(Name(DType::kBFloat16), "bfloat16");
  EXPECT_EQ(SizeOf(DType::kFloat32), 4);
  EXPECT_EQ(SizeOf(DType::kFloat16), 2);
  EXPECT_EQ(SizeOf(DType::kBFloat16), 2);
}

TEST(ForwardStatsTest, AddsEveryField) {
  ForwardStats sum{.tiles_computed = 1, .tiles_skipped = 2, .flops = 3, .hbm_bytes = 4};
  sum += {.tiles_computed = 10, .tiles_skipped = 20, .flops = 30, .hbm_bytes = 40};
  EXPECT_EQ(sum.tiles_computed, 11);
  EXPECT_EQ(sum.tiles_skipped, 22);
  EXPECT_EQ(sum.flops, 33);
  EXPECT_EQ(sum.hbm_bytes, 44);
}

TEST(ValidateParamsTest, AcceptsTheWholeRange) {
  AttentionParams params = GoodParams();
  for (int head_dim = kMinHeadDim; head_dim <= kMaxHeadDim; head_dim += kHeadDimStep) {
    params.head_dim = head_dim;
    EXPECT_TRUE(ValidateParams(params).ok()) << head_dim;
  }
  for (float scale : {-1.0f, 0.0f, 1e-30f, 1e30f}) {
    params.scale = scale;
    EXPECT_TRUE(ValidateParams(params).ok()) << scale;
  }
  params.mask = Mask::Window(std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(ValidateParams(params).ok());
}

TEST(ValidateParamsTest, RefusesNamingFieldAndLimit) {
  const auto with = [](auto change) {
    AttentionParams params = GoodParams();
    change(params);
    return ValidateParams(params);
  };
  ExpectRefused(with([](auto& p) { p.dtype = static_cast<DType>(7); }), "dtype", "float32");
  ExpectRefused(with([](auto& p) { p.kv_heads = 0; }), "kv_heads", "1");
  ExpectRefused(with([](auto& p) { p.q_heads = 0; }), "q_heads", "1");
  ExpectRefused(with([](auto& p) { p.q_heads = 7; }), "q_heads", "multiple of kv_heads = 2");
  for (int head_dim : {-8, 0, 4, 12, 257, 264}) {
    ExpectRefused(with([&](auto& p) { p.head_dim = head_dim; }), "head_dim", "8 to 256");
  }
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (float bad : {infinity, -infinity, nan}) {
    ExpectRefused(with([&](auto& p) { p.scale = bad; }), "scale", "finite");
    ExpectRefused(with([&](auto& p) { p.softcap = bad; }), "softcap", "finite");
  }
  ExpectRefused(with([](auto& p) { p.softcap = -1; }), "softcap", "0");
  ExpectRefused(with([](auto& p) { p.mask = Mask::Window(-2, 0); }), "mask.left", "-1");
  ExpectRefused(with([](auto& p) { p.mask = Mask::Window(0, -2); }), "mask.right", "-1");
}

class ValidateSequenceTest : public ::testing::Test {
 protected:
  AttentionParams params_ = GoodParams();
  RandomBatch batch_{params_, std::vector<SequenceLengths>{{3, 5}}, 1};
  SequenceView view_ = batch_.View(0);
};

TEST_F(ValidateSequenceTest, AcceptsEveryLayout) {
  for (TensorLayout layout : {TensorLayout::kPacked, TensorLayout::kPadded, TensorLayout::kHeadsOuter}) {
    RandomBatch batch(params_, std::vector<SequenceLengths>{{3, 5}, {1, 1}, {0, 4}, {4, 0}, {0, 0}}, 1, layout);
    EXPECT_TRUE(ValidateBatch(params_, batch.Views()).ok());
  }
}

TEST_F(ValidateSequenceTest, AcceptsNullPointersOfEmptyTensors) {
  EXPECT_TRUE(ValidateSequence(params_, SequenceView{}).ok());
  view_.kv_len = 0;
  view_.k = view_.v = nullptr;
  view_.lse = nullptr;
  EXPECT_TRUE(ValidateSequence(params_, view_).ok());
}

TEST_F(ValidateSequenceTest, RefusesNegativeLengthsAndNullPointers) {
  const auto with = [this](auto change) {
    SequenceView view = view_;
    change(view);
    return ValidateSequence(params_, view);
  };
  ExpectRefused(with([](auto& s) { s.q_len = -1; }), "q_len", "0");
  ExpectRefused(with([](auto& s) { s.kv_len = -1; }), "kv_len", "0");
  ExpectRefused(with([](auto& s) { s.q = nullptr; }), "q", "null");
  ExpectRefused(with([](auto& s) { s.k = nullptr; }), "k", "null");
  ExpectRefused(with([](auto& s) { s.v = nullptr; }), "v", "null");
  ExpectRefused(with([](auto& s) { s.o = nullptr; }), "o", "null");
}

TEST_F(ValidateSequenceTest, RefusesOverlappingStrides) {
  const auto with = [this](Strides strides) {
    SequenceView view = view_;
    view.q_strides = strides;
    return ValidateSequence(params_, view);
  };
  const int64_t width = params_.head_dim;
  ExpectRefused(with({8 * width, width - 1}), "q head stride", "64");
  ExpectRefused(with({width - 1, 8 * width}), "q token stride", "64");
  ExpectRefused(with({8 * width - 1, width}), "q strides overlap", "8 heads");
  ExpectRefused(with({width, 3 * width - 1}), "q strides overlap", "3 tokens");
  EXPECT_TRUE(with({8 * width, width}).ok());
  EXPECT_TRUE(with({width, 3 * width}).ok());
  EXPECT_TRUE(with({int64_t{1} << 62, int64_t{1} << 58}).ok());
}

TEST_F(ValidateSequenceTest, BatchErrorNamesTheSequence) {
  std::vector<SequenceView> views(3, view_);
  views[2].kv_len = -4;
  ExpectRefused(ValidateBatch(params_, views), "sequence 2", "kv_len");
}

}  // namespace
}  // namespace tessera
