#include "client/cpp/tessera/security.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/tessera/small_file.h"
#include "client/cpp/tessera/token_source.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace tessera {
namespace {

constexpr unsigned kRefreshSeconds = 1;  // the least that gRPC takes

absl::Status CheckPem(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> contents = ReadSmallFile(path);
  if (!contents.ok()) return contents.status();
  if (absl::StrContains(*contents, "-----BEGIN ")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": holds nothing in PEM"));
}

absl::Status Check(const SecurityOptions& options) {
  if (options.certificate.empty() != options.private_key.empty()) {
    return absl::InvalidArgumentError("certificate, private_key: one needs the other");
  }
  if (!options.token.empty() && !options.token_file.empty()) {
    return absl::InvalidArgumentError("token, token_file: one is enough");
  }
  absl::Status status = CheckPem(options.root_certificates);
  status.Update(CheckPem(options.certificate));
  status.Update(CheckPem(options.private_key));
  return status;
}

// gRPC has new names for this since 1.80 or so, and warns of the old ones.
template <typename Options>
Options ChannelOptions(const SecurityOptions& security) {
  Options options;
  const bool roots = !security.root_certificates.empty();
  const bool identity = !security.certificate.empty();
  if (!roots && !identity) return options;
  const auto provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      security.private_key, security.certificate, security.root_certificates, kRefreshSeconds);
  if constexpr (requires { options.set_identity_certificate_provider(provider); }) {
    if (roots) options.set_root_certificate_provider(provider);
    if (identity) options.set_identity_certificate_provider(provider);
  } else {
    options.set_certificate_provider(provider);
    if (roots) options.watch_root_certs();
    if (identity) options.watch_identity_key_cert_pairs();
  }
  return options;
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(const SecurityOptions& options) {
  if (absl::Status status = Check(options); !status.ok()) return status;
  std::shared_ptr<grpc::ChannelCredentials> tls =
      grpc::experimental::TlsCredentials(ChannelOptions<grpc::experimental::TlsChannelCredentialsOptions>(options));
  if (options.token.empty() && options.token_file.empty()) return tls;
  absl::StatusOr<std::unique_ptr<TokenSource>> source =
      options.token_file.empty() ? TokenSource::Fixed(options.token) : TokenSource::OfFile(options.token_file);
  if (!source.ok()) return source.status();
  return grpc::CompositeChannelCredentials(tls, grpc::MetadataCredentialsFromPlugin(*std::move(source)));
}

}  // namespace tessera
