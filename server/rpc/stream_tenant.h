// Whose a stream is, by its token, which it may outlive.
#ifndef TESSERA_SERVER_RPC_STREAM_TENANT_H_
#define TESSERA_SERVER_RPC_STREAM_TENANT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/credentials/token_table.h"
#include "server/rpc/caller.h"

namespace tessera {

// Not thread-safe.
class StreamTenant {
 public:
  // Of an RPC with this metadata. Both outlive it; `tokens` may be null.
  StreamTenant(const CallMetadata& metadata, const Tokens* tokens);
  StreamTenant(const StreamTenant&) = delete;
  StreamTenant& operator=(const StreamTenant&) = delete;

  // As TenantOf says: nobody's stream is not to begin.
  const absl::Status& status() const { return tenant_.status(); }
  // REQUIRES: status().ok().
  const std::string& name() const { return *tenant_; }

  // Whether the token still stands for the tenant; to be asked for each message. REQUIRES: status().ok().
  absl::Status Check();
  // How a stream ends whose token does not: whoever has a new one by now is heard at once when it comes again, and the
  // others are told then.
  static absl::Status ComeAgain();

 private:
  const CallMetadata& metadata_;
  const Tokens* const tokens_;
  uint64_t version_;  // of the tokens, by which tenant_ is known; 0 where none is asked for
  const absl::StatusOr<std::string> tenant_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_STREAM_TENANT_H_
