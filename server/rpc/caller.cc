#include "server/rpc/caller.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/rpc/bearer_token.h"

namespace tessera {
namespace {

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

absl::Duration TimeLeft(gpr_timespec deadline) {
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  if (left.tv_sec == std::numeric_limits<int64_t>::max()) return absl::InfiniteDuration();
  if (left.tv_sec == std::numeric_limits<int64_t>::min()) return -absl::InfiniteDuration();
  return absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

absl::Time DeadlineOf(const grpc::CallbackServerContext& context, const Clock& clock) {
  return clock.Now() + TimeLeft(context.raw_deadline());
}

absl::Duration ToTimeout(uint64_t timeout_us) {
  constexpr uint64_t kLongest = uint64_t{365} * 24 * 3600 * 1000000;
  return timeout_us == 0 || timeout_us > kLongest ? absl::InfiniteDuration()
                                                  : absl::Microseconds(static_cast<int64_t>(timeout_us));
}

absl::Status CancellationReason(const grpc::CallbackServerContext& context) {
  if (TimeLeft(context.raw_deadline()) <= absl::ZeroDuration()) {
    return absl::DeadlineExceededError("the deadline passed");
  }
  return absl::CancelledError("the caller cancelled");
}

}  // namespace tessera
