#include "server/rpc/attend_header.h"

#include <cmath>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/wire/attend_encode.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

v1::AttendHeader ValidHeader() {
  v1::AttendHeader header;
  header.set_dtype(v1::DATA_TYPE_BFLOAT16);
  header.set_q_heads(8);
  header.set_kv_heads(2);
  header.set_head_dim(64);
  header.add_q_lengths(3);
  header.add_q_lengths(5);
  return header;
}

// The refusal's message; empty where the header was taken.
std::string Refusal(const v1::AttendHeader& header) {
  const absl::StatusOr<AttendSpec> spec = ToAttendSpec(header, RequestLimits());
  if (spec.ok()) return "";
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(spec.status().message());
}

TEST(AttendHeaderTest, FieldsBecomeTheDomains) {
  v1::AttendHeader header = ValidHeader();
  header.add_kv_lengths(4);
  header.add_kv_lengths(0);
  v1::AttentionOptions& options = *header.mutable_options();
  options.set_scale(0.25f);
  options.mutable_mask()->set_kind(v1::MASK_KIND_WINDOW);
  options.mutable_mask()->set_window_left(-1);
  options.mutable_mask()->set_window_right(7);
  options.set_softcap(30);
  options.set_return_lse(true);
  options.set_priority(v1::PRIORITY_HIGH);
  const absl::StatusOr<AttendSpec> spec = ToAttendSpec(header, RequestLimits());
  ASSERT_TRUE(spec.ok()) << spec.status();
  const AttentionParams& params = spec->shape.params;
  EXPECT_EQ(params.dtype, DType::kBFloat16);
  EXPECT_EQ(params.q_heads, 8);
  EXPECT_EQ(params.kv_heads, 2);
  EXPECT_EQ(params.head_dim, 64);
  EXPECT_EQ(params.scale, 0.25f);
  EXPECT_EQ(params.softcap, 30);
  EXPECT_EQ(params.mask, Mask::Window(Mask::kUnbounded, 7));
  EXPECT_THAT(spec->shape.q_lengths, ::testing::ElementsAre(3, 5));
  EXPECT_THAT(spec->shape.kv_lengths, ::testing::ElementsAre(4, 0));
  EXPECT_TRUE(spec->shape.return_lse);
  EXPECT_EQ(spec->priority, JobPriority::kHigh);
}

TEST(AttendHeaderTest, DefaultsAreThoseOfTheProtocol) {
  const absl::StatusOr<AttendSpec> spec = ToAttendSpec(ValidHeader(), RequestLimits());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->shape.params.scale, 1.0f / std::sqrt(64.0f));
  EXPECT_EQ(spec->shape.params.mask, Mask::Full());
  EXPECT_EQ(spec->shape.kv_lengths, spec->shape.q_lengths);
  EXPECT_EQ(spec->priority, JobPriority::kNormal);
  EXPECT_FALSE(spec->shape.return_lse);
}

TEST(AttendHeaderTest, CountsBeyondInt32AreNamedAsTheyCame) {
  using Setter = void (v1::AttendHeader::*)(uint32_t);
  for (const auto& [field, set] : {std::pair<const char*, Setter>("q_heads", &v1::AttendHeader::set_q_heads),
                                   {"kv_heads", &v1::AttendHeader::set_kv_heads},
                                   {"head_dim", &v1::AttendHeader::set_head_dim}}) {
    v1::AttendHeader header = ValidHeader();
    (header.*set)(4294967288u);
    const absl::Status status = ToAttendSpec(header, RequestLimits()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), ::testing::AllOf(HasSubstr(field), HasSubstr("4294967288")));
  }
}

TEST(AttendHeaderTest, ScaleOfZeroIsNotTheDefault) {
  v1::AttendHeader header = ValidHeader();
  header.mutable_options()->set_scale(0);
  const absl::StatusOr<AttendSpec> spec = ToAttendSpec(header, RequestLimits());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->shape.params.scale, 0);
}

TEST(AttendHeaderTest, RefusalsNameTheField) {
  v1::AttendHeader header = ValidHeader();
  header.clear_dtype();
  EXPECT_THAT(Refusal(header), HasSubstr("dtype"));
  header = ValidHeader();
  header.set_dtype(static_cast<v1::DataType>(99));
  EXPECT_THAT(Refusal(header), HasSubstr("dtype"));
  header = ValidHeader();
  header.mutable_options()->mutable_mask()->set_kind(static_cast<v1::MaskKind>(9));
  EXPECT_THAT(Refusal(header), HasSubstr("mask.kind"));
  header = ValidHeader();
  header.mutable_options()->mutable_mask()->set_kind(v1::MASK_KIND_CAUSAL);
  header.mutable_options()->mutable_mask()->set_window_left(1);
  EXPECT_THAT(Refusal(header), HasSubstr("window_left"));
  header = ValidHeader();
  header.mutable_options()->mutable_mask()->set_kind(v1::MASK_KIND_WINDOW);
  header.mutable_options()->mutable_mask()->set_window_right(-2);
  EXPECT_THAT(Refusal(header), HasSubstr("window_right"));
  header = ValidHeader();
  header.mutable_options()->set_priority(static_cast<v1::Priority>(17));
  EXPECT_THAT(Refusal(header), HasSubstr("priority"));
}

TEST(AttendHeaderTest, RefusesWhatTheKernelsRefuse) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    v1::AttendHeader header = ValidHeader();
    header.mutable_options()->set_scale(bad);
    EXPECT_THAT(Refusal(header), HasSubstr("scale"));
    header = ValidHeader();
    header.mutable_options()->set_softcap(bad);
    EXPECT_THAT(Refusal(header), HasSubstr("softcap"));
  }
  v1::AttendHeader header = ValidHeader();
  header.mutable_options()->set_softcap(-1);
  EXPECT_THAT(Refusal(header), HasSubstr("softcap"));
}

TEST(AttendHeaderTest, CountsBeyondInt32AreRefusedAsTheyCame) {
  constexpr uint32_t kHuge = 0xffffffffu;
  v1::AttendHeader header = ValidHeader();
  header.set_q_heads(kHuge);
  EXPECT_THAT(Refusal(header), HasSubstr("q_heads: 4294967295"));
  header = ValidHeader();
  header.set_kv_heads(kHuge);
  EXPECT_THAT(Refusal(header), HasSubstr("kv_heads: 4294967295"));
  header = ValidHeader();
  header.set_head_dim(kHuge);
  EXPECT_THAT(Refusal(header), HasSubstr("head_dim: 4294967295"));
  header = ValidHeader();
  header.set_q_lengths(0, kHuge);
  EXPECT_THAT(Refusal(header), HasSubstr("q_lengths[0]: 4294967295"));
}

TEST(AttendResultTest, TimesBecomeDurations) {
  AttendShape shape;
  shape.q_bytes = 100;
  shape.lse_bytes = 8;
  JobTimes times;
  times.received = absl::FromUnixNanos(1000);
  times.queued = absl::FromUnixNanos(1500);
  times.launched = absl::FromUnixNanos(3500);
  times.finished = absl::FromUnixNanos(9500);
  times.batch_jobs = 4;
  const v1::AttendResult result = ToAttendResult(shape, times);
  EXPECT_EQ(result.o_bytes(), 100u);
  EXPECT_EQ(result.lse_bytes(), 8u);
  EXPECT_EQ(result.timing().receive_ns(), 500u);
  EXPECT_EQ(result.timing().queue_ns(), 2000u);
  EXPECT_EQ(result.timing().run_ns(), 6000u);
  EXPECT_EQ(result.timing().batch_requests(), 4u);
}

TEST(AttendHeaderTest, AnswerThatNoMessageHoldsIsRefused) {
  RequestLimits limits;
  limits.max_request_bytes = int64_t{1} << 40;
  limits.max_sequence_tokens = int64_t{1} << 32;
  AttentionParams params;
  params.dtype = DType::kFloat16;
  params.q_heads = params.kv_heads = 1;
  params.head_dim = 8;  // o: 16 bytes a token; LSE: 4
  const auto answer = [&](uint32_t q_tokens, bool return_lse) {
    return CheckUnaryAnswer(*AttendShape::Make(params, {q_tokens}, {0}, return_lse, limits));
  };
  const uint32_t most = (wire::kMaxMessageBytes - 1024) / 16;
  EXPECT_TRUE(answer(most, false).ok());
  EXPECT_EQ(answer(most + 1, false).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(answer(most, true).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(answer(most, true).message(), ::testing::HasSubstr("AttendStream"));
}

}  // namespace
}  // namespace tessera
