#include "server/rpc/server_names.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/wire/server_id.h"
#include "server/rpc/status.h"

namespace tessera {

ServerNames::ServerNames(absl::string_view own, const std::vector<std::string>& peers) : own_id_(wire::ServerId(own)) {
  for (const std::string& peer : peers) {
    if (peer != own) peers_.emplace(wire::ServerId(peer), peer);
  }
}

std::string ServerNames::Encode(const SequenceHandle& handle) const { return absl::StrCat(own_id_, handle.Encode()); }

absl::StatusOr<SequenceHandle> ServerNames::Decode(absl::string_view bytes) const {
  if (bytes.size() != wire::kServerIdBytes + SequenceHandle::kBytes) return NoSuchSequence();
  if (absl::StartsWith(bytes, own_id_)) return *SequenceHandle::Decode(bytes.substr(wire::kServerIdBytes));
  const auto peer = peers_.find(bytes.substr(0, wire::kServerIdBytes));
  if (peer == peers_.end()) return NoSuchSequence();
  return KeptElsewhere(peer->second);
}

}  // namespace tessera
