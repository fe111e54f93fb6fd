#include "server/rpc/token_check.h"

#include "absl/status/status.h"
#include "server/rpc/caller.h"
#include "server/rpc/status.h"

namespace tessera {

grpc::Status TokenCheck::Process(const InputMetadata& metadata, grpc::AuthContext* /*context*/,
                                 OutputMetadata* /*consumed*/, OutputMetadata* /*response*/) {
  const absl::Status status = TenantOf(metadata, tokens_).status();
  if (!status.ok()) CountEnding(status, Station::kReceive, observer_);
  return ToGrpcStatus(status);
}

}  // namespace tessera
