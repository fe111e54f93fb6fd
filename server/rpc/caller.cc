#include "server/rpc/caller.h"

#include <chrono>

#include "absl/strings/str_cat.h"

namespace tessera {

absl::StatusOr<std::string> TenantOf(const grpc::CallbackServerContext& context) {
  const auto entry = context.client_metadata().find(kTenantKey);
  if (entry == context.client_metadata().end() || entry->second.empty()) return std::string(kDefaultTenant);
  if (entry->second.size() > kMaxTenantBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(kTenantKey, ": ", entry->second.size(), " bytes, the limit is ", kMaxTenantBytes));
  }
  return std::string(entry->second.data(), entry->second.size());
}

absl::Time DeadlineOf(const grpc::CallbackServerContext& context, const Clock& clock) {
  const std::chrono::system_clock::time_point deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::InfiniteFuture();
  return clock.FromSystem(absl::FromChrono(deadline));
}

absl::Status CancellationReason(const grpc::CallbackServerContext& context) {
  if (context.deadline() <= std::chrono::system_clock::now()) {
    return absl::DeadlineExceededError("the deadline passed");
  }
  return absl::CancelledError("the caller cancelled");
}

}  // namespace tessera
