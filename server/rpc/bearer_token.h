// What a caller shows to say who it is.
#ifndef TESSERA_SERVER_RPC_BEARER_TOKEN_H_
#define TESSERA_SERVER_RPC_BEARER_TOKEN_H_

#include <map>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/string_ref.h"

namespace tessera {

// The token of `authorization: Bearer TOKEN`, within `metadata`. UNAUTHENTICATED, quoting nothing, where there is none,
// more than one, or something else.
absl::StatusOr<absl::string_view> BearerToken(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata);

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_BEARER_TOKEN_H_
