#include "client/cpp/cli/profile_line.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cpp/cli/plan_tables.h"

namespace tessera {

std::string FormatProfile(const v1::CacheProfile& profile) {
  std::string line = absl::StrCat(profile.name(), ": ", profile.layers(), " layers, ", profile.kv_heads(), " heads of ",
                                  profile.head_dim(), " ", DataTypeName(profile.dtype()));
  if (profile.kv_dtype() != profile.dtype()) absl::StrAppend(&line, " kept as ", DataTypeName(profile.kv_dtype()));
  absl::StrAppend(&line, ", ", profile.pages(), " pages of ", profile.page_tokens(), " tokens, sequences of ",
                  profile.max_tokens(), ", lease ",
                  absl::FormatDuration(absl::Milliseconds(static_cast<int64_t>(profile.lease_ms()))));
  return line;
}

}  // namespace tessera
