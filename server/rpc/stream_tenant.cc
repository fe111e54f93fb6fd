#include "server/rpc/stream_tenant.h"

#include "server/rpc/status.h"

namespace tessera {

StreamTenant::StreamTenant(const CallMetadata& metadata, const Tokens* tokens)
    : metadata_(metadata),
      tokens_(tokens),
      version_(tokens == nullptr ? 0 : tokens->version()),
      tenant_(TenantOf(metadata, tokens)) {}

absl::Status StreamTenant::Check() {
  if (tokens_ == nullptr) return absl::OkStatus();
  const uint64_t version = tokens_->version();
  if (version == version_) return absl::OkStatus();
  version_ = version;
  const absl::StatusOr<std::string> tenant = TenantOf(metadata_, tokens_);
  if (!tenant.ok()) return tenant.status();
  return *tenant == name() ? absl::OkStatus() : absl::PermissionDeniedError("the token is another tenant's now");
}

absl::Status StreamTenant::ComeAgain() {
  return TokenGone("the stream's token is not valid any more: open another stream");
}

}  // namespace tessera
