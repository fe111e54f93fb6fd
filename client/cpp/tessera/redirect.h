// Which server keeps a sequence that the one asked does not, as a part of its status.
#ifndef TESSERA_CLIENT_CPP_TESSERA_REDIRECT_H_
#define TESSERA_CLIENT_CPP_TESSERA_REDIRECT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/client_context.h"

namespace tessera {

// Its address, "host:port"; empty where the server names none.
std::string RedirectAddress(const absl::Status& status);

// `status` with an address; without where that is empty. REQUIRES: `status` is not OK where it is not.
absl::Status WithRedirect(absl::Status status, absl::string_view address);

// The address that an RPC which has ended names in its trailing metadata; empty where there is none.
std::string RedirectIn(const grpc::ClientContext& rpc);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_REDIRECT_H_
