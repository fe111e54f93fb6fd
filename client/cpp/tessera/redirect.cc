#include "client/cpp/tessera/redirect.h"

#include <utility>

#include "client/cpp/tessera/status_detail.h"

namespace tessera {
namespace {

constexpr char kDetail[] = "tessera.v1/redirect";

}  // namespace

std::string RedirectAddress(const absl::Status& status) { return StatusDetail(status, kDetail); }

absl::Status WithRedirect(absl::Status status, absl::string_view address) {
  return WithStatusDetail(std::move(status), kDetail, address);
}

std::string RedirectIn(const grpc::ClientContext& rpc) { return TrailingValue(rpc, "tessera-redirect"); }

}  // namespace tessera
