// The flags by which the clients' programs are told of TLS and tokens.
#ifndef TESSERA_CLIENT_CPP_FLAGS_SECURITY_FLAGS_H_
#define TESSERA_CLIENT_CPP_FLAGS_SECURITY_FLAGS_H_

#include "absl/status/status.h"
#include "client/cpp/tessera/options.h"

namespace tessera {

// Sets the credentials that the parsed flags ask for: plain text where none of them is given. INVALID_ARGUMENT for
// files that are no good, and for a token without TLS.
absl::Status SetSecurity(ClientOptions* options);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_FLAGS_SECURITY_FLAGS_H_
