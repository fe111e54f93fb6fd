#include "server/rpc/caller.h"

#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::absl::StatusCode;

std::string TokenLine(const char* tenant, const char* token) {
  const TokenDigest digest = DigestOf(token);
  return absl::StrCat(tenant, " ",
                      absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()}), "\n");
}

TEST(TenantOfTest, IsWhatTheCallerSaysWithoutTokens) {
  EXPECT_EQ(TenantOf({}, nullptr).value(), kDefaultTenant);
  EXPECT_EQ(TenantOf({{kTenantKey, ""}}, nullptr).value(), kDefaultTenant);
  EXPECT_EQ(TenantOf({{kTenantKey, "a"}, {"authorization", "Bearer b"}}, nullptr).value(), "a");
  const std::string longest(kMaxTenantBytes, 'a');
  EXPECT_EQ(TenantOf({{kTenantKey, longest}}, nullptr).value(), longest);
  EXPECT_EQ(TenantOf({{kTenantKey, longest + "a"}}, nullptr).status().code(), StatusCode::kInvalidArgument);
}

class TenantOfTokenTest : public ::testing::Test {
 protected:
  TenantOfTokenTest() {
    tokens_.Replace(TokenTable::Parse(TokenLine("a", "one") + TokenLine("b", "two"), kMaxTenantBytes).value());
  }
  StatusCode CodeOf(const CallMetadata& metadata) const { return TenantOf(metadata, &tokens_).status().code(); }

  Tokens tokens_;
};

TEST_F(TenantOfTokenTest, IsTheTokensTenant) {
  EXPECT_EQ(TenantOf({{"authorization", "Bearer one"}}, &tokens_).value(), "a");
  EXPECT_EQ(TenantOf({{"authorization", "bearer  two "}}, &tokens_).value(), "b");
  EXPECT_EQ(TenantOf({{"authorization", "Bearer one"}, {kTenantKey, "a"}}, &tokens_).value(), "a");
}

TEST_F(TenantOfTokenTest, NobodyWithoutAKnownToken) {
  EXPECT_EQ(CodeOf({}), StatusCode::kUnauthenticated);
  EXPECT_EQ(CodeOf({{kTenantKey, "a"}}), StatusCode::kUnauthenticated);
  for (const char* value : {"", "Bearer", "Bearer ", "Bearer three", "Basic one", "one", "Bearer one two"}) {
    EXPECT_EQ(CodeOf({{"authorization", value}}), StatusCode::kUnauthenticated) << value;
  }
  EXPECT_EQ(CodeOf({{"authorization", "Bearer one"}, {"authorization", "Bearer one"}}), StatusCode::kUnauthenticated);
}

TEST_F(TenantOfTokenTest, OtherTenantsNameIsDenied) {
  EXPECT_EQ(CodeOf({{"authorization", "Bearer one"}, {kTenantKey, "b"}}), StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeOf({{"authorization", "Bearer one"}, {kTenantKey, ""}}), StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeOf({{"authorization", "Bearer one"}, {kTenantKey, "a"}, {kTenantKey, "b"}}),
            StatusCode::kPermissionDenied);
}

TEST(CallerTest, NoTimeoutAndOneOfMoreThanAYearAreWithoutEnd) {
  EXPECT_EQ(ToTimeout(1), absl::Microseconds(1));
  EXPECT_EQ(ToTimeout(uint64_t{3600} * 1'000'000), absl::Hours(1));
  for (const uint64_t none : {uint64_t{0}, uint64_t{366} * 24 * 3600 * 1'000'000, ~uint64_t{0}}) {
    EXPECT_EQ(ToTimeout(none), absl::InfiniteDuration()) << none;
  }
}

TEST(TimeLeftTest, IsByTheDeadlinesOwnClock) {
  constexpr int64_t kCenturies = int64_t{300} * 366 * 24 * 3600;  // more nanoseconds than 64 bits hold
  for (const gpr_clock_type type : {GPR_CLOCK_MONOTONIC, GPR_CLOCK_REALTIME}) {
    for (const int64_t seconds :
         {int64_t{-3600}, int64_t{-1}, int64_t{1}, int64_t{3600}, kCenturies, 40 * kCenturies}) {
      const gpr_timespec now = gpr_now(type);
      const absl::Duration left = TimeLeft(gpr_time_add(now, gpr_time_from_seconds(seconds, GPR_TIMESPAN)));
      const gpr_timespec passed = gpr_time_sub(gpr_now(type), now);
      EXPECT_LE(left, absl::Seconds(seconds));
      EXPECT_GE(left, absl::Seconds(seconds - passed.tv_sec) - absl::Nanoseconds(passed.tv_nsec));
    }
    EXPECT_EQ(TimeLeft(gpr_inf_future(type)), absl::InfiniteDuration());
    EXPECT_EQ(TimeLeft(gpr_inf_past(type)), -absl::InfiniteDuration());
  }
}

TEST(CallerTest, UnixSocketsAndLoopbackAreLocal) {
  for (const char* peer : {"unix:", "unix:/run/tessera.sock", "unix-abstract:tessera", "ipv4:127.0.0.1:4711",
                           "ipv4:127.9.9.9:1", "ipv6:[::1]:4711", "ipv6:%5B::1%5D:4711"}) {
    EXPECT_TRUE(IsLocalPeer(peer)) << peer;
  }
}

TEST(CallerTest, OtherAddressesAreNot) {
  for (const char* peer : {"", "ipv4:10.0.0.1:127", "ipv4:128.0.0.1:1", "ipv4:1.127.0.0:1", "ipv6:[::12]:1",
                           "ipv6:%5B::1:2%5D:1", "ipv6:[2001:db8::1]:4711", "unknown"}) {
    EXPECT_FALSE(IsLocalPeer(peer)) << peer;
  }
}

}  // namespace
}  // namespace tessera
