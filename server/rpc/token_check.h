// Lets those calls through that show a token.
#ifndef TESSERA_SERVER_RPC_TOKEN_CHECK_H_
#define TESSERA_SERVER_RPC_TOKEN_CHECK_H_

#include "grpcpp/security/auth_metadata_processor.h"
#include "server/credentials/token_table.h"
#include "server/rpc/rpc_observer.h"

namespace tessera {

// Part of a port's credentials: every call of every service comes by here before there is a handler for it. Ends calls
// with UNAUTHENTICATED that show no known token, and with PERMISSION_DENIED those that name another tenant than their
// token's; both are counted as rejected.
//
// What it finds out cannot be handed on: the context that gRPC has for that belongs to a connection, whose calls may be
// of many tenants. So the token stays in the call's metadata, and TenantOf looks it up again, which takes a
// microsecond.
class TokenCheck final : public grpc::AuthMetadataProcessor {
 public:
  // Both outlive every call.
  TokenCheck(const Tokens* tokens, RpcObserver* observer) : tokens_(tokens), observer_(observer) {}

  // On gRPC's thread that has read the call.
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context, OutputMetadata* consumed,
                       OutputMetadata* response) override;

 private:
  const Tokens* const tokens_;
  RpcObserver* const observer_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_TOKEN_CHECK_H_
