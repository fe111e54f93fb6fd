#include "server/request/attend_shape.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/random/seed.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

AttentionParams Params() {
  AttentionParams params;
  params.dtype = DType::kBFloat16;
  params.q_heads = 8;
  params.kv_heads = 2;
  params.head_dim = 64;
  return params;
}

// The error must name the field and the limit.
void ExpectRefused(const absl::StatusOr<AttendShape>& shape, const char* field, const char* limit) {
  EXPECT_EQ(shape.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(shape.status().message(), AllOf(HasSubstr(field), HasSubstr(limit)));
}

TEST(AttendShape, SizesOfARaggedCall) {
  const absl::StatusOr<AttendShape> shape = AttendShape::Make(Params(), {3, 0, 5}, {7, 2, 0}, true, {});
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_THAT(shape->q_lengths, testing::ElementsAre(3, 0, 5));
  EXPECT_THAT(shape->kv_lengths, testing::ElementsAre(7, 2, 0));
  EXPECT_EQ(shape->q_tokens, 8);
  EXPECT_EQ(shape->kv_tokens, 9);
  EXPECT_EQ(shape->q_bytes, 8 * 8 * 64 * 2);
  EXPECT_EQ(shape->kv_bytes, 9 * 2 * 64 * 2);
  EXPECT_EQ(shape->lse_bytes, 8 * 8 * 4);
  EXPECT_EQ(shape->input_bytes(), 8 * 8 * 64 * 2 + 2 * 9 * 2 * 64 * 2);
  EXPECT_EQ(shape->output_bytes(), 8 * 8 * 64 * 2 + 8 * 8 * 4);
}

TEST(AttendShape, KeyLengthsDefaultToQueryLengths) {
  const absl::StatusOr<AttendShape> shape = AttendShape::Make(Params(), {3, 5}, {}, false, {});
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->kv_lengths, shape->q_lengths);
  EXPECT_EQ(shape->lse_bytes, 0);
}

TEST(AttendShape, AllLengthsZeroIsLegal) {
  const absl::StatusOr<AttendShape> shape = AttendShape::Make(Params(), {0}, {}, true, {});
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->input_bytes() + shape->output_bytes(), 0);
}

TEST(AttendShape, RefusesBadParameters) {
  AttentionParams params = Params();
  params.head_dim = 12;
  ExpectRefused(AttendShape::Make(params, {1}, {}, false, {}), "head_dim", "8");
  params = Params();
  params.head_dim = 264;
  ExpectRefused(AttendShape::Make(params, {1}, {}, false, {}), "head_dim", "256");
  params = Params();
  params.q_heads = 7;
  ExpectRefused(AttendShape::Make(params, {1}, {}, false, {}), "q_heads", "kv_heads");
  params = Params();
  params.kv_heads = 0;
  ExpectRefused(AttendShape::Make(params, {1}, {}, false, {}), "kv_heads", "1");
  params = Params();
  params.scale = std::nanf("");
  ExpectRefused(AttendShape::Make(params, {1}, {}, false, {}), "scale", "finite");
  params = Params();
  params.softcap = -1;
  ExpectRefused(AttendShape::Make(params, {1}, {}, false, {}), "softcap", "0");
  params = Params();
  params.mask.left = -2;
  ExpectRefused(AttendShape::Make(params, {1}, {}, false, {}), "left", "-1");
}

TEST(AttendShape, RefusesWhatIsBeyondTheLimits) {
  RequestLimits limits;
  limits.max_heads = 4;
  ExpectRefused(AttendShape::Make(Params(), {1}, {}, false, limits), "q_heads", "4");
  limits = {};
  limits.max_sequences = 2;
  ExpectRefused(AttendShape::Make(Params(), {1, 1, 1}, {}, false, limits), "q_lengths", "2");
  limits = {};
  limits.max_sequence_tokens = 100;
  ExpectRefused(AttendShape::Make(Params(), {1, 101}, {}, false, limits), "q_lengths[1]", "100");
  ExpectRefused(AttendShape::Make(Params(), {1, 100}, {101, 1}, false, limits), "kv_lengths[0]", "100");
  EXPECT_TRUE(AttendShape::Make(Params(), {1, 100}, {}, false, limits).ok());
}

TEST(AttendShape, RefusesListsThatDisagree) {
  ExpectRefused(AttendShape::Make(Params(), {}, {}, false, {}), "q_lengths", "1");
  ExpectRefused(AttendShape::Make(Params(), {1, 2}, {1}, false, {}), "kv_lengths", "2");
}

TEST(AttendShape, BytesAreLimitedToTheByte) {
  RequestLimits limits;
  limits.max_request_bytes = 2 * 8 * 64 * 2 + 2 * 2 * 64 * 2 + 8 * 4;  // one token: q, o; k, v; LSE
  EXPECT_TRUE(AttendShape::Make(Params(), {1}, {}, true, limits).ok());
  --limits.max_request_bytes;
  ExpectRefused(AttendShape::Make(Params(), {1}, {}, true, limits), "lengths", "limit");
  EXPECT_TRUE(AttendShape::Make(Params(), {1}, {}, false, limits).ok());
}

TEST(AttendShape, OverflowIsAnErrorWhateverTheLimits) {
  RequestLimits limits;
  limits.max_request_bytes = INT64_MAX;
  limits.max_sequence_tokens = INT64_MAX;
  limits.max_heads = INT32_MAX;
  AttentionParams params = Params();
  params.dtype = DType::kFloat32;
  params.head_dim = 256;  // 2^10 bytes a head
  params.q_heads = params.kv_heads = 1 << 30;
  ExpectRefused(AttendShape::Make(params, {UINT32_MAX}, {0}, false, limits), "q_lengths", "limit");   // q > 2^63
  ExpectRefused(AttendShape::Make(params, {0}, {UINT32_MAX}, false, limits), "kv_lengths", "limit");  // k > 2^63
  ExpectRefused(AttendShape::Make(params, {1 << 22}, {0}, false, limits), "q_lengths", "limit");      // q + o = 2^63
  ExpectRefused(AttendShape::Make(params, {1 << 21}, {1 << 21}, false, limits), "q_lengths", "limit");
  EXPECT_TRUE(AttendShape::Make(params, {1 << 20}, {1 << 20}, false, limits).ok());  // 2^62 in all
}

int64_t CountPairs(const Mask& mask, int64_t q_len, int64_t kv_len) {
  int64_t pairs = 0;
  for (int64_t i = 0; i < q_len; ++i) {
    const int64_t p = i + kv_len - q_len;
    for (int64_t j = 0; j < kv_len; ++j) {
      const bool after_left = mask.left == Mask::kUnbounded || j >= p - mask.left;
      const bool before_right = mask.right == Mask::kUnbounded || j <= p + mask.right;
      if (after_left && before_right) ++pairs;
    }
  }
  return pairs;
}

TEST(AttendShape, CostCountsVisiblePairsAndBytes) {
  const uint64_t seed = tessera::RandomSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::uniform_int_distribution<uint32_t> length(0, 19);
  for (int i = 0; i < 2000; ++i) {
    AttentionParams params = Params();
    params.mask = Mask::Window(static_cast<int64_t>(random() % 12) - 1, static_cast<int64_t>(random() % 12) - 1);
    const std::vector<uint32_t> q_lengths = {length(random), length(random)};
    const std::vector<uint32_t> kv_lengths = {length(random), length(random)};
    const AttendShape shape = *AttendShape::Make(params, q_lengths, kv_lengths, true, {});
    const int64_t pairs =
        CountPairs(params.mask, q_lengths[0], kv_lengths[0]) + CountPairs(params.mask, q_lengths[1], kv_lengths[1]);
    const int64_t work = 4 * params.head_dim * params.q_heads * pairs +
                         static_cast<int64_t>(AttendShape::kFlopsPerByte) *
                             (shape.input_bytes() + shape.output_bytes() + 2 * AttendShape::kSequenceBytes);
    ASSERT_EQ(shape.Cost(), work) << "q " << testing::PrintToString(q_lengths) << " kv "
                                  << testing::PrintToString(kv_lengths) << " left " << params.mask.left << " right "
                                  << params.mask.right;
  }
}

TEST(AttendShape, CostOfExtremesStaysInRange) {
  RequestLimits limits;
  limits.max_sequence_tokens = UINT32_MAX;
  limits.max_request_bytes = INT64_MAX;
  AttentionParams params = Params();
  EXPECT_GT(AttendShape::Make(params, {0}, {}, false, limits)->Cost(), 0);
  EXPECT_EQ(AttendShape::Make(params, {UINT32_MAX}, {}, false, limits)->Cost(), int64_t{1} << 60);
  params.mask = Mask::Window(INT64_MAX, INT64_MAX);
  const AttendShape wide = *AttendShape::Make(params, {100}, {}, false, limits);
  params.mask = Mask::Full();
  EXPECT_EQ(wide.Cost(), AttendShape::Make(params, {100}, {}, false, limits)->Cost());
}

TEST(AttendShape, CostIsLimitedToTheUnit) {
  RequestLimits limits;
  limits.max_request_cost = AttendShape::Make(Params(), {100, 3}, {}, true, {})->Cost();
  EXPECT_TRUE(AttendShape::Make(Params(), {100, 3}, {}, true, limits).ok());
  const std::string limit = "max_request_cost = " + std::to_string(limits.max_request_cost);
  ExpectRefused(AttendShape::Make(Params(), {100, 4}, {}, true, limits), "cost", limit.c_str());
  const int64_t cost = limits.max_request_cost--;
  ExpectRefused(AttendShape::Make(Params(), {100, 3}, {}, true, limits), "cost is", std::to_string(cost).c_str());
}

}  // namespace
}  // namespace tessera
