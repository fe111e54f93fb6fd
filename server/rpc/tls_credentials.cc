#include "server/rpc/tls_credentials.h"

#include <string>
#include <utility>

#include "grpcpp/security/tls_credentials_options.h"

namespace tessera {
namespace {

using grpc::experimental::CertificateProviderInterface;

// gRPC has new names for this since 1.80 or so, and warns of the old ones.
template <typename Options>
Options ServerOptions(std::shared_ptr<CertificateProviderInterface> provider, bool client_ca) {
  if constexpr (requires(Options options) { options.set_identity_certificate_provider(provider); }) {
    Options options = *Options::Create(provider);
    if (client_ca) options.set_root_certificate_provider(std::move(provider));
    return options;
  } else {
    Options options(std::move(provider));
    options.watch_identity_key_cert_pairs();
    if (client_ca) options.watch_root_certs();
    return options;
  }
}

std::shared_ptr<grpc::ServerCredentials> MakeCredentials(const std::string& identity_path,
                                                         const std::string& client_ca_path) {
  auto options = ServerOptions<grpc::experimental::TlsServerCredentialsOptions>(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          identity_path, identity_path, client_ca_path,
          static_cast<unsigned>(absl::ToInt64Seconds(TlsCredentials::kRefresh))),
      !client_ca_path.empty());
  options.set_cert_request_type(client_ca_path.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                       : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsCredentials>> TlsCredentials::Create(const TlsMaterial& material) {
  std::unique_ptr<TlsCredentials> tls(new TlsCredentials);
  absl::StatusOr<std::unique_ptr<MemoryFile>> identity = MemoryFile::Create(material.identity);
  if (!identity.ok()) return identity.status();
  tls->identity_ = *std::move(identity);
  if (!material.client_ca.empty()) {
    absl::StatusOr<std::unique_ptr<MemoryFile>> client_ca = MemoryFile::Create(material.client_ca);
    if (!client_ca.ok()) return client_ca.status();
    tls->client_ca_ = *std::move(client_ca);
  }
  tls->credentials_ =
      MakeCredentials(tls->identity_->path(), tls->client_ca_ == nullptr ? "" : tls->client_ca_->path());
  return tls;
}

absl::Status TlsCredentials::Replace(const TlsMaterial& material) {
  absl::Status status = identity_->Replace(material.identity);
  if (status.ok() && client_ca_ != nullptr) status = client_ca_->Replace(material.client_ca);
  return status;
}

}  // namespace tessera
