#include "tests/server/profile_flag.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace tessera::testing {

std::string ProfileFlag(const CacheProfile& profile) {
  return absl::StrCat("--kv_profiles=name=", profile.name, ",layers=", profile.layers, ",kv_heads=", profile.kv_heads,
                      ",head_dim=", profile.head_dim, ",dtype=", Name(profile.dtype),
                      profile.float8 ? ",kv_dtype=float8_e4m3" : "", ",page_tokens=", profile.page_tokens,
                      ",pages=", profile.pages, ",host_pages=", profile.host_pages, ",max_tokens=", profile.max_tokens,
                      ",max_sequences=", profile.max_sequences, ",tenant_share=", profile.tenant_share,
                      ",lease=", absl::FormatDuration(profile.lease));
}

}  // namespace tessera::testing
