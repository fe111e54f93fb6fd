#include "server/request/extend_shape.h"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

CacheProfile Profile() {
  return {
      .name = "p", .layers = 3, .kv_heads = 2, .head_dim = 16, .dtype = DType::kFloat16, .pages = 8, .max_tokens = 100};
}

AttentionParams Params() {
  AttentionParams params;
  params.dtype = DType::kFloat16;
  params.q_heads = 6;
  params.kv_heads = 2;
  params.head_dim = 16;
  return params;
}

SequenceHandle Named(uint32_t slot) { return {.epoch = 1, .slot = slot, .generation = 1, .secret = 7}; }

absl::StatusOr<ExtendShape> Make(std::vector<ExtendEntry> entries, const RequestLimits& limits = {}) {
  return ExtendShape::Make(Params(), std::move(entries), /*return_lse=*/true, Profile(), limits);
}

TEST(ExtendShapeTest, SizesAreThoseOfTheTensors) {
  const absl::StatusOr<ExtendShape> shape = Make({{Named(0), 0, 3, 5}, {Named(0), 1, 0, 2}, {Named(1), 0, 4, 0}});
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->q_tokens, 7);
  EXPECT_EQ(shape->append_tokens, 7);
  EXPECT_EQ(shape->q_bytes, 7 * 6 * 16 * 2);
  EXPECT_EQ(shape->kv_bytes, 7 * 2 * 16 * 2);
  EXPECT_EQ(shape->lse_bytes, 7 * 6 * 4);
  EXPECT_GE(shape->held_bytes(), shape->input_bytes() + shape->output_bytes());
}

TEST(ExtendShapeTest, CostGrowsWithWhatIsAttendedTo) {
  const absl::StatusOr<ExtendShape> shape = Make({{Named(0), 0, 3, 5}});
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->Cost({1000}) - shape->Cost({0}), 4 * 16 * 6 * 3 * 1000);
}

TEST(ExtendShapeTest, RefusalsNameTheField) {
  const auto refuses = [](std::vector<ExtendEntry> entries, const char* field, const RequestLimits& limits = {}) {
    const absl::Status status = Make(std::move(entries), limits).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), field)) << status;
  };
  refuses({}, "entries");
  refuses({{Named(0), 3, 1, 1}}, "entries[0].layer");
  refuses({{Named(0), 0, 1, 1}, {Named(1), -1, 1, 1}}, "entries[1].layer");
  refuses({{Named(0), 0, 101, 0}}, "entries[0].q_tokens");
  refuses({{Named(0), 0, 1, 101}}, "entries[0].append_tokens");
  refuses({{Named(0), 1, 1, 1}, {Named(1), 1, 1, 1}, {Named(0), 1, 1, 0}}, "named twice");
  refuses({{Named(0), 0, 1, 1}, {Named(1), 0, 1, 1}}, "entries", {.max_sequences = 1});
  refuses({{Named(0), 0, 100, 100}}, "max_request_bytes", {.max_request_bytes = 1000});
  refuses({{Named(0), 0, 1, 1}}, "q_heads", {.max_heads = 4});
}

TEST(ExtendShapeTest, WhatNoServerHoldsIsRefusedWithoutOverflow) {
  CacheProfile profile = Profile();
  profile.max_tokens = int64_t{1} << 32;
  std::vector<ExtendEntry> entries;
  for (uint32_t i = 0; i < 4096; ++i) entries.push_back({Named(i), 0, profile.max_tokens, profile.max_tokens});
  RequestLimits limits;
  limits.max_request_bytes = int64_t{1} << 40;
  const absl::Status status = ExtendShape::Make(Params(), entries, true, profile, limits).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

TEST(CacheProfileTest, RefusesWhatMakesNoSense) {
  EXPECT_TRUE(Validate(Profile()).ok());
  const auto refuses = [](const char* field, auto change) {
    CacheProfile profile = Profile();
    change(profile);
    const absl::Status status = Validate(profile);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << field;
    EXPECT_TRUE(absl::StrContains(status.message(), field)) << status;
  };
  refuses("name", [](CacheProfile& p) { p.name = ""; });
  refuses("layers", [](CacheProfile& p) { p.layers = 0; });
  refuses("kv_heads", [](CacheProfile& p) { p.kv_heads = 0; });
  refuses("head_dim", [](CacheProfile& p) { p.head_dim = 12; });
  refuses("page_tokens", [](CacheProfile& p) { p.page_tokens = 48; });
  refuses("pages", [](CacheProfile& p) { p.pages = 0; });
  refuses("pages", [](CacheProfile& p) { p.pages = std::numeric_limits<int32_t>::max() - 1, p.page_tokens = 4096; });
  refuses("tenant_share", [](CacheProfile& p) { p.tenant_share = 0; });
  refuses("lease", [](CacheProfile& p) { p.lease = absl::ZeroDuration(); });
}

}  // namespace
}  // namespace tessera
