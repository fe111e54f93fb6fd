// What every call on resident sequences works with.
#ifndef TESSERA_SERVER_RPC_SEQUENCE_ENVIRONMENT_H_
#define TESSERA_SERVER_RPC_SEQUENCE_ENVIRONMENT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/cache/sequence_handle.h"
#include "server/request/resident_cache.h"
#include "server/rpc/attend_environment.h"
#include "server/rpc/server_names.h"

namespace tessera {

// Outlives every RPC.
struct SequenceEnvironment {
  const AttendEnvironment& attend;
  const ServerNames names;
  std::vector<ResidentCachePtr> caches;  // one a profile; fixed before the server listens

  // The cache of the profile of that name. INVALID_ARGUMENT where there is none.
  absl::StatusOr<ResidentCachePtr> OfProfile(absl::string_view name) const;

  struct Named {
    ResidentCachePtr cache;
    SequenceHandle handle;
  };
  // The cache that gave out the handle in `bytes`. NOT_FOUND, as for a sequence that is not there, where none did, or
  // as ServerNames::Decode has it.
  absl::StatusOr<Named> OfHandle(absl::string_view bytes) const;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_SEQUENCE_ENVIRONMENT_H_
