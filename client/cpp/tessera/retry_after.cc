#include "client/cpp/tessera/retry_after.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cpp/tessera/status_detail.h"

namespace tessera {
namespace {

constexpr char kDetail[] = "tessera.v1/retry_after_ms";

// Zero for what is no number, and for one below 0.
absl::Duration Parse(absl::string_view milliseconds) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(milliseconds, &value)) return absl::ZeroDuration();
  return absl::Milliseconds(std::max<int64_t>(0, value));
}

}  // namespace

absl::Duration RetryAfter(const absl::Status& status) { return Parse(StatusDetail(status, kDetail)); }

absl::Status WithRetryAfter(absl::Status status, absl::Duration retry_after) {
  const int64_t milliseconds = absl::ToInt64Milliseconds(absl::Ceil(retry_after, absl::Milliseconds(1)));
  if (milliseconds <= 0) return status;
  return WithStatusDetail(std::move(status), kDetail, absl::StrCat(milliseconds));
}

absl::Duration PushbackOf(const grpc::ClientContext& rpc) {
  return Parse(TrailingValue(rpc, "grpc-retry-pushback-ms"));
}

}  // namespace tessera
