// What the gRPC port asks of its callers, kept up with the files that say so.
#ifndef TESSERA_SERVER_PORT_SECURITY_H_
#define TESSERA_SERVER_PORT_SECURITY_H_

#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/security/server_credentials.h"
#include "server/config/config.h"
#include "server/credentials/file_watcher.h"
#include "server/credentials/token_table.h"
#include "server/metrics/server_metrics.h"
#include "server/rpc/rpc_observer.h"
#include "server/rpc/tls_credentials.h"

namespace tessera {

// Files are looked at every kPeriod. What they newly hold is taken where it is good, within TlsCredentials::kRefresh in
// the case of certificates; otherwise what was taken last stays in force. Both are logged and counted.
class PortSecurity {
 public:
  // Plain text where the configuration names no certificate. INVALID_ARGUMENT where a file cannot be read or is no
  // good. Everything given outlives this; `tokens` is filled if the configuration names a file of them.
  static absl::StatusOr<std::unique_ptr<PortSecurity>> Open(const ServerConfig& config, Tokens* tokens,
                                                            RpcObserver* rpcs, ServerMetrics* metrics);

  static constexpr absl::Duration kPeriod = absl::Seconds(1);

  std::shared_ptr<grpc::ServerCredentials> credentials() const;
  // When the certificate in force expires, Unix time in seconds; infinity where there is none.
  double certificate_expiry() const { return expiry_; }

 private:
  PortSecurity(Tokens* tokens, ServerMetrics* metrics) : tokens_(tokens), metrics_(metrics) {}

  absl::Status TakeCertificates(const std::vector<std::string>& contents);
  absl::Status TakeTokens(const std::string& contents);
  // Loads the files, and watches them from now on.
  absl::Status Watch(std::vector<std::string> paths, CredentialKind kind, FileWatch::TakeFn take);
  void OnChange(CredentialKind kind, const absl::Status& status);

  Tokens* const tokens_;
  ServerMetrics* const metrics_;
  std::unique_ptr<TlsCredentials> tls_;  // null: plain text
  std::atomic<double> expiry_ = std::numeric_limits<double>::infinity();
  std::vector<FileWatcher::Watched> watched_;
  std::unique_ptr<FileWatcher> watcher_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_PORT_SECURITY_H_
