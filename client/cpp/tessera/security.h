// How a client makes sure of its server, and says who it is itself.
#ifndef TESSERA_CLIENT_CPP_TESSERA_SECURITY_H_
#define TESSERA_CLIENT_CPP_TESSERA_SECURITY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/security/credentials.h"

namespace tessera {

// Names of files, in PEM but for the token's. All are looked at every second while the credentials live: connections
// that are made later use what the files hold by then, and calls the token. Certificate and key belong together, so
// change both in one step, by another folder or symbolic link; connections that meet them half changed fail until they
// match again.
struct SecurityOptions {
  // Who signs servers' certificates. Empty: whom the system trusts.
  std::string root_certificates;
  // For servers that ask clients for one; both or neither.
  std::string certificate;
  std::string private_key;
  // Sent with every call as `authorization: Bearer`; at most one of the two. White space around it is no part of it.
  std::string token;
  std::string token_file;
};

// TLS, for ClientOptions::credentials. INVALID_ARGUMENT where a file cannot be read or is no such file, or the options
// do not go together.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(const SecurityOptions& options);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_SECURITY_H_
