// How a handle on the wire names the server that keeps its sequence, and where that one is to be found.
#ifndef TESSERA_SERVER_RPC_SERVER_NAMES_H_
#define TESSERA_SERVER_RPC_SERVER_NAMES_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/cache/sequence_handle.h"

namespace tessera {

// On the wire a handle is wire::ServerId of its server's address and SequenceHandle's bytes. Immutable.
class ServerNames {
 public:
  // `own` is the "host:port" by which callers reach this very server, `peers` those of the servers of its set, this one
  // possibly among them. Empty: it is not advertised, and knows no others.
  ServerNames(absl::string_view own, const std::vector<std::string>& peers);

  std::string Encode(const SequenceHandle& handle) const;

  // The handle that Encode made of this server's. NOT_FOUND where a peer's Encode made `bytes`, for all that their
  // length and beginning say, with that peer's address (RedirectOf in status.h); NOT_FOUND, as for a sequence that is
  // not there, for all others.
  absl::StatusOr<SequenceHandle> Decode(absl::string_view bytes) const;

 private:
  const std::string own_id_;
  absl::flat_hash_map<std::string, std::string> peers_;  // addresses by id, without this server's
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_SERVER_NAMES_H_
