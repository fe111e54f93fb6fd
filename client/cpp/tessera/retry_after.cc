#include "client/cpp/tessera/retry_after.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace tessera {
namespace {

constexpr char kPayload[] = "tessera.v1/retry_after_ms";

// Zero for what is no number, and for one below 0.
absl::Duration Parse(absl::string_view milliseconds) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(milliseconds, &value)) return absl::ZeroDuration();
  return absl::Milliseconds(std::max<int64_t>(0, value));
}

}  // namespace

absl::Duration RetryAfter(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  return payload.has_value() ? Parse(std::string(*payload)) : absl::ZeroDuration();
}

absl::Status WithRetryAfter(absl::Status status, absl::Duration retry_after) {
  const int64_t milliseconds = absl::ToInt64Milliseconds(absl::Ceil(retry_after, absl::Milliseconds(1)));
  if (milliseconds > 0) status.SetPayload(kPayload, absl::Cord(absl::StrCat(milliseconds)));
  return status;
}

absl::Duration PushbackOf(const grpc::ClientContext& rpc) {
  const auto& metadata = rpc.GetServerTrailingMetadata();
  const auto found = metadata.find("grpc-retry-pushback-ms");
  if (found == metadata.end()) return absl::ZeroDuration();
  return Parse(absl::string_view(found->second.data(), found->second.size()));
}

}  // namespace tessera
