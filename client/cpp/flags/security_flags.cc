#include "client/cpp/flags/security_flags.h"

#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "client/cpp/tessera/security.h"

ABSL_FLAG(bool, tls, false, "TLS; implied by --tls_ca and --tls_certificate");
ABSL_FLAG(std::string, tls_ca, "", "file of who signs the server's certificate, PEM; empty: whom the system trusts");
ABSL_FLAG(std::string, tls_certificate, "", "file of the client's own certificate, PEM, for servers that ask for one");
ABSL_FLAG(std::string, tls_private_key, "", "file of its private key, PEM");
ABSL_FLAG(std::string, tls_server_name, "", "name that the server's certificate must bear; empty: the target's host");
ABSL_FLAG(std::string, token_file, "", "file of the bearer token that calls carry");

namespace tessera {

absl::Status SetSecurity(ClientOptions* options) {
  SecurityOptions security;
  security.root_certificates = absl::GetFlag(FLAGS_tls_ca);
  security.certificate = absl::GetFlag(FLAGS_tls_certificate);
  security.private_key = absl::GetFlag(FLAGS_tls_private_key);
  security.token_file = absl::GetFlag(FLAGS_token_file);
  options->server_name = absl::GetFlag(FLAGS_tls_server_name);
  if (!absl::GetFlag(FLAGS_tls) && security.root_certificates.empty() && security.certificate.empty() &&
      security.private_key.empty()) {
    if (security.token_file.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("--token_file: needs TLS, for a token in plain text is anybody's");
  }
  absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> credentials = MakeCredentials(security);
  if (!credentials.ok()) return credentials.status();
  options->credentials = *std::move(credentials);
  return absl::OkStatus();
}

}  // namespace tessera
