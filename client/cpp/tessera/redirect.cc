#include "client/cpp/tessera/redirect.h"

#include "absl/strings/cord.h"
#include "absl/types/optional.h"

namespace tessera {
namespace {

constexpr char kPayload[] = "tessera.v1/redirect";

}  // namespace

std::string RedirectAddress(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  return payload.has_value() ? std::string(*payload) : std::string();
}

absl::Status WithRedirect(absl::Status status, absl::string_view address) {
  if (!address.empty()) status.SetPayload(kPayload, absl::Cord(address));
  return status;
}

std::string RedirectIn(const grpc::ClientContext& rpc) {
  const auto& metadata = rpc.GetServerTrailingMetadata();
  const auto found = metadata.find("tessera-redirect");
  return found == metadata.end() ? std::string() : std::string(found->second.data(), found->second.size());
}

}  // namespace tessera
