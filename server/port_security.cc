#include "server/port_security.h"

#include <utility>

#include "absl/time/clock.h"
#include "server/credentials/tls_material.h"
#include "server/process/logging.h"
#include "server/rpc/caller.h"
#include "server/rpc/token_check.h"

namespace tessera {

absl::StatusOr<std::unique_ptr<PortSecurity>> PortSecurity::Open(const ServerConfig& config, Tokens* tokens,
                                                                 RpcObserver* rpcs, ServerMetrics* metrics) {
  std::unique_ptr<PortSecurity> security(new PortSecurity(tokens, metrics));
  PortSecurity* const self = security.get();
  if (!config.tls_certificate.empty()) {
    std::vector<std::string> paths = {config.tls_certificate, config.tls_private_key};
    if (!config.tls_client_ca.empty()) paths.push_back(config.tls_client_ca);
    absl::Status status =
        self->Watch(std::move(paths), CredentialKind::kCertificate,
                    [self](const std::vector<std::string>& contents) { return self->TakeCertificates(contents); });
    if (!status.ok()) return status;
  }
  if (!config.token_file.empty()) {
    absl::Status status =
        self->Watch({config.token_file}, CredentialKind::kTokens,
                    [self](const std::vector<std::string>& contents) { return self->TakeTokens(contents.front()); });
    if (!status.ok()) return status;
    self->tls_->get()->SetAuthMetadataProcessor(std::make_shared<TokenCheck>(tokens, rpcs));
  }
  if (!self->watched_.empty()) {
    self->watcher_ = std::make_unique<FileWatcher>(std::move(self->watched_), kPeriod);
  }
  return security;
}

std::shared_ptr<grpc::ServerCredentials> PortSecurity::credentials() const {
  return tls_ == nullptr ? grpc::InsecureServerCredentials() : tls_->get();
}

absl::Status PortSecurity::TakeCertificates(const std::vector<std::string>& contents) {
  const absl::StatusOr<TlsMaterial> material =
      JudgeTlsMaterial(contents[0], contents[1], contents.size() > 2 ? &contents[2] : nullptr, absl::Now());
  if (!material.ok()) return material.status();
  if (tls_ == nullptr) {
    absl::StatusOr<std::unique_ptr<TlsCredentials>> tls = TlsCredentials::Create(*material);
    if (!tls.ok()) return tls.status();
    tls_ = *std::move(tls);
  } else if (absl::Status status = tls_->Replace(*material); !status.ok()) {
    return status;
  }
  expiry_ = static_cast<double>(absl::ToUnixSeconds(material->expiry));
  return absl::OkStatus();
}

absl::Status PortSecurity::TakeTokens(const std::string& contents) {
  absl::StatusOr<TokenTable> table = TokenTable::Parse(contents, kMaxTenantBytes);
  if (!table.ok()) return table.status();
  tokens_->Replace(*std::move(table));
  return absl::OkStatus();
}

absl::Status PortSecurity::Watch(std::vector<std::string> paths, CredentialKind kind, FileWatch::TakeFn take) {
  FileWatch files(std::move(paths), std::move(take));
  if (absl::Status status = files.Load(); !status.ok()) return status;
  watched_.push_back({std::move(files), [this, kind](const absl::Status& status) { OnChange(kind, status); }});
  return absl::OkStatus();
}

void PortSecurity::OnChange(CredentialKind kind, const absl::Status& status) {
  metrics_->CredentialsReloaded(kind, status.ok());
  const char* const name = kCredentialKindLabels[static_cast<size_t>(kind)];
  if (status.ok()) {
    Log(LogLevel::kInfo, "credentials_taken", {{"kind", name}});
  } else {
    Log(LogLevel::kError, "credentials_refused", {{"kind", name}, {"status", status.ToString()}});
  }
}

}  // namespace tessera
