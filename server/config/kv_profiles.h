// Cache profiles as a flag spells them.
#ifndef TESSERA_SERVER_CONFIG_KV_PROFILES_H_
#define TESSERA_SERVER_CONFIG_KV_PROFILES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/request/cache_profile.h"

namespace tessera {

// Profiles separated by semicolons, each a list of key=value separated by commas:
//
//   name=small,layers=8,kv_heads=4,head_dim=64,dtype=float16,pages=4096;name=large,...
//
// Keys are the fields of CacheProfile, `lease` as absl::ParseDuration reads it; `kv_dtype=float8_e4m3` stands for
// `float8`, and `kv_scales` names a file of numbers with blanks between them. What is left out has its default.
// INVALID_ARGUMENT naming the profile and the key for what does not parse. Whether the values make sense is for
// Validate.
absl::StatusOr<std::vector<CacheProfile>> ParseCacheProfiles(absl::string_view text);

}  // namespace tessera

#endif  // TESSERA_SERVER_CONFIG_KV_PROFILES_H_
