#include "server/rpc/caller.h"

#include <grpc/support/time.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "server/rpc/bearer_token.h"

namespace tessera {
namespace {

// By the system's clock. Not context.deadline(), whose nanoseconds since 1970 overflow in 2262.
absl::Time SystemDeadline(const grpc::CallbackServerContext& context) {
  constexpr int64_t kFarthest = int64_t{1} << 40;  // seconds: longer than anybody waits
  const gpr_timespec deadline = gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_REALTIME);
  if (deadline.tv_sec >= kFarthest) return absl::InfiniteFuture();
  return absl::FromTimeT(deadline.tv_sec) + absl::Nanoseconds(deadline.tv_nsec);
}

absl::StatusOr<std::string> NamedTenant(const CallMetadata& metadata) {
  const auto entry = metadata.find(kTenantKey);
  if (entry == metadata.end() || entry->second.empty()) return std::string(kDefaultTenant);
  if (entry->second.size() > kMaxTenantBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(kTenantKey, ": ", entry->second.size(), " bytes, the limit is ", kMaxTenantBytes));
  }
  return std::string(entry->second.data(), entry->second.size());
}

absl::StatusOr<std::string> TenantOfToken(const CallMetadata& metadata, const Tokens& tokens) {
  const absl::StatusOr<absl::string_view> token = BearerToken(metadata);
  if (!token.ok()) return token.status();
  std::optional<std::string> tenant = tokens.TenantOf(*token);
  if (!tenant.has_value()) return absl::UnauthenticatedError("authorization: the bearer token is not known");
  const auto [first, last] = metadata.equal_range(kTenantKey);
  for (auto entry = first; entry != last; ++entry) {
    if (absl::string_view(entry->second.data(), entry->second.size()) != *tenant) {
      return absl::PermissionDeniedError(absl::StrCat(kTenantKey, ": names another tenant than the bearer token's"));
    }
  }
  return *std::move(tenant);
}

}  // namespace

absl::StatusOr<std::string> TenantOf(const CallMetadata& metadata, const Tokens* tokens) {
  return tokens != nullptr ? TenantOfToken(metadata, *tokens) : NamedTenant(metadata);
}

bool IsLocalPeer(absl::string_view peer) {
  // Of an IPv6 address, some versions of gRPC escape the brackets.
  for (const absl::string_view local : {"unix:", "unix-abstract:", "ipv4:127.",
                                        "ipv6:[::1]:", "ipv6:%5B::1%5D:", "ipv6:[::ffff:127.", "ipv6:%5B::ffff:127."}) {
    if (absl::StartsWith(peer, local)) return true;
  }
  return false;
}

absl::Time DeadlineOf(const grpc::CallbackServerContext& context, const Clock& clock) {
  const absl::Time deadline = SystemDeadline(context);
  return deadline == absl::InfiniteFuture() ? deadline : clock.FromSystem(deadline);
}

absl::Duration ToTimeout(uint64_t timeout_us) {
  constexpr uint64_t kLongest = uint64_t{365} * 24 * 3600 * 1000000;
  return timeout_us == 0 || timeout_us > kLongest ? absl::InfiniteDuration()
                                                  : absl::Microseconds(static_cast<int64_t>(timeout_us));
}

absl::Status CancellationReason(const grpc::CallbackServerContext& context) {
  if (SystemDeadline(context) <= absl::Now()) {
    return absl::DeadlineExceededError("the deadline passed");
  }
  return absl::CancelledError("the caller cancelled");
}

}  // namespace tessera
