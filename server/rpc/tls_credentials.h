// TLS of a gRPC port, whose certificates change while it serves.
#ifndef TESSERA_SERVER_RPC_TLS_CREDENTIALS_H_
#define TESSERA_SERVER_RPC_TLS_CREDENTIALS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "server/credentials/memory_file.h"
#include "server/credentials/tls_material.h"

namespace tessera {

// gRPC watches files for new certificates, but takes whatever it finds in them: a key without its certificate would
// fail every handshake from then on, and key and certificate can be read from either side of a change. So it is not
// shown the operator's files, but two in memory that only ever hold what has been found good: one with certificate and
// key in one, which change together, and one with the clients' CA.
class TlsCredentials {
 public:
  // UNAVAILABLE where the system has no files in memory.
  static absl::StatusOr<std::unique_ptr<TlsCredentials>> Create(const TlsMaterial& material);

  // Every connection is asked for a certificate where the material has a client CA.
  const std::shared_ptr<grpc::ServerCredentials>& get() const { return credentials_; }

  // Connections that come more than kRefresh later see the new certificates; those that are open are left alone.
  // REQUIRES: there is a client CA if there was one in Create, and not otherwise. Called by one thread at a time.
  absl::Status Replace(const TlsMaterial& material);
  static constexpr absl::Duration kRefresh = absl::Seconds(1);  // the least that gRPC takes

 private:
  TlsCredentials() = default;

  std::unique_ptr<MemoryFile> identity_;
  std::unique_ptr<MemoryFile> client_ca_;  // null: none
  std::shared_ptr<grpc::ServerCredentials> credentials_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_TLS_CREDENTIALS_H_
