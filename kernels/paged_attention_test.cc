#include "kernels/paged_attention.h"

#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

PagedParams Params() {
  return {.attention = {.dtype = DType::kFloat16, .q_heads = 4, .kv_heads = 2, .head_dim = 16},
          .cache_dtype = CacheDType::kFloat16,
          .page_tokens = 4,
          .page_stride = 128,
          .strides = Strides::Packed(2, 16)};
}

class ValidatePagedTest : public ::testing::Test {
 protected:
  PagedSequence Sequence() {
    return {.q_len = 1,
            .kv_len = 9,
            .append_len = 1,
            .layer = {.k_pages = memory_, .v_pages = memory_},
            .pages = pages_,
            .q = memory_,
            .k = memory_,
            .v = memory_,
            .o = memory_,
            .q_strides = Strides::Packed(4, 16),
            .k_strides = Strides::Packed(2, 16),
            .v_strides = Strides::Packed(2, 16),
            .o_strides = Strides::Packed(4, 16)};
  }

  void ExpectRefused(const PagedParams& params, const PagedSequence& sequence, const std::string& naming) {
    const absl::Status status = ValidatePagedBatch(params, {sequence});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(naming));
  }
  void ExpectRefused(const PagedParams& params, const std::string& naming) {
    ExpectRefused(params, Sequence(), naming);
  }
  void ExpectRefused(const PagedSequence& sequence, const std::string& naming) {
    ExpectRefused(Params(), sequence, "sequence 0: " + naming);
  }

  uint16_t memory_[1] = {};
  std::vector<int32_t> pages_ = {7, 0, 3};
};

TEST_F(ValidatePagedTest, TakesWhatIsRight) {
  EXPECT_EQ(ValidatePagedBatch(Params(), {Sequence()}), absl::OkStatus());
  EXPECT_EQ(ValidatePagedBatch(Params(), {}), absl::OkStatus());
  EXPECT_EQ(ValidatePagedBatch(Params(), {PagedSequence{}}), absl::OkStatus()) << "nothing to do is legal";
  PagedParams heads_outer = Params();
  heads_outer.strides = {16, 64};
  EXPECT_EQ(ValidatePagedBatch(heads_outer, {Sequence()}), absl::OkStatus());
}

TEST_F(ValidatePagedTest, ParametersAreCheckedToo) {
  PagedParams params = Params();
  params.attention.head_dim = 12;
  ExpectRefused(params, "head_dim");
}

TEST_F(ValidatePagedTest, TheCacheHasTheCallsTypeOrFp8) {
  PagedParams params = Params();
  params.cache_dtype = CacheDType::kBFloat16;
  ExpectRefused(params, "cache_dtype must be float16 or float8_e4m3, got bfloat16");
  params.cache_dtype = CacheDType::kFloat8;
  ExpectRefused(params, "k_scales");
  PagedSequence sequence = Sequence();
  const float scales[2] = {1, 1};
  sequence.layer.k_scales = sequence.layer.v_scales = scales;
  EXPECT_EQ(ValidatePagedBatch(params, {sequence}), absl::OkStatus());
}

TEST_F(ValidatePagedTest, PageGeometry) {
  for (const int64_t tokens : {int64_t{0}, int64_t{-4}, int64_t{3}, 2 * kMaxPageTokens}) {
    PagedParams params = Params();
    params.page_tokens = tokens;
    ExpectRefused(params, "page_tokens");
  }
  PagedParams params = Params();
  params.page_stride = 127;
  ExpectRefused(params, "page_stride");
  params = Params();
  params.strides.token = 8;
  ExpectRefused(params, "token stride");
  params = Params();
  params.strides.head = 8;
  ExpectRefused(params, "head stride");
  params = Params();
  params.strides = {24, 24};
  params.page_stride = 1000;
  ExpectRefused(params, "overlap");
  params = Params();
  params.strides.token = std::numeric_limits<int64_t>::max();
  ExpectRefused(params, "page_stride");
}

TEST_F(ValidatePagedTest, Lengths) {
  PagedSequence sequence = Sequence();
  sequence.kv_len = -1;
  ExpectRefused(sequence, "kv_len");
  sequence = Sequence();
  sequence.append_len = 10;
  ExpectRefused(sequence, "append_len");
  sequence.append_len = -1;
  ExpectRefused(sequence, "append_len");
  sequence = Sequence();
  sequence.q_len = -1;
  ExpectRefused(sequence, "q_len");
  sequence = Sequence();
  sequence.kv_len = 13;
  ExpectRefused(sequence, "pages must be at least 4, got 3");
  sequence.kv_len = std::numeric_limits<int64_t>::max();
  ExpectRefused(sequence, "pages");
}

TEST_F(ValidatePagedTest, Pointers) {
  PagedSequence sequence = Sequence();
  sequence.layer.v_pages = nullptr;
  ExpectRefused(sequence, "k_pages and v_pages");
  sequence = Sequence();
  sequence.k = nullptr;
  ExpectRefused(sequence, "k must not be null");
  sequence.append_len = 0;
  EXPECT_EQ(ValidatePagedBatch(Params(), {sequence}), absl::OkStatus());
}

TEST(SplitKeysTest, StaysWithinItsBounds) {
  for (const int64_t kv_heads : {1, 4, 5, 8, 128}) {
    const int64_t most = MostSplits(kv_heads);
    EXPECT_EQ(most, kv_heads <= 4 ? 64 : kv_heads == 5 ? 51 : 32);
    EXPECT_EQ(SplitKeys(0, kv_heads), kMinSplitKeys);
    EXPECT_EQ(SplitKeys(1, kv_heads), kMinSplitKeys);
    EXPECT_EQ(SplitKeys(kMinSplitKeys * most, kv_heads), kMinSplitKeys);
    EXPECT_EQ(SplitKeys(kMinSplitKeys * most + 1, kv_heads), kMinSplitKeys + kSplitStep);
    for (int64_t length = 1; length < int64_t{1} << 40; length = length * 3 + 1) {
      const int64_t keys = SplitKeys(length, kv_heads);
      EXPECT_EQ(keys % kSplitStep, 0);
      EXPECT_LE((length + keys - 1) / keys, most);
    }
    EXPECT_GT(SplitKeys(std::numeric_limits<int64_t>::max(), kv_heads), 0);
  }
}

}  // namespace
}  // namespace tessera
