#include "server/rpc/bearer_token.h"

#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace tessera {

absl::StatusOr<absl::string_view> BearerToken(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata) {
  constexpr absl::string_view kScheme = "Bearer ";
  const auto [first, last] = metadata.equal_range("authorization");
  if (first == last) return absl::UnauthenticatedError("authorization: missing; this server asks for a bearer token");
  if (std::next(first) != last) return absl::UnauthenticatedError("authorization: more than one");
  const absl::string_view value(first->second.data(), first->second.size());
  if (!absl::StartsWithIgnoreCase(value, kScheme)) {
    return absl::UnauthenticatedError("authorization: no bearer token, which this server asks for");
  }
  return absl::StripAsciiWhitespace(value.substr(kScheme.size()));
}

}  // namespace tessera
