#include "client/cpp/tessera/status_detail.h"

#include "absl/strings/cord.h"
#include "absl/types/optional.h"

namespace tessera {

std::string StatusDetail(const absl::Status& status, absl::string_view name) {
  const absl::optional<absl::Cord> detail = status.GetPayload(name);
  return detail.has_value() ? std::string(*detail) : std::string();
}

absl::Status WithStatusDetail(absl::Status status, absl::string_view name, absl::string_view detail) {
  if (!detail.empty()) status.SetPayload(name, absl::Cord(detail));
  return status;
}

std::string TrailingValue(const grpc::ClientContext& rpc, const std::string& key) {
  const auto& metadata = rpc.GetServerTrailingMetadata();
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string() : std::string(found->second.data(), found->second.size());
}

}  // namespace tessera
