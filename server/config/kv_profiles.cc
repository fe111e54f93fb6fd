#include "server/config/kv_profiles.h"

#include <cstddef>
#include <fstream>
#include <iomanip>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "kernels/attention.h"
#include "kernels/paged_attention.h"

namespace tessera {
namespace {

// Bytes of a field that an error quotes.
constexpr size_t kMostShown = 200;

bool ParseDType(absl::string_view text, DType* dtype) {
  for (const DType candidate : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    if (text != Name(candidate)) continue;
    *dtype = candidate;
    return true;
  }
  return false;
}

// False where the file cannot be read, holds anything but numbers, or more than any profile has. What has no end, such
// as a device, is not read for ever.
bool ReadScales(const std::string& path, std::vector<float>* scales) {
  constexpr size_t kMostScales = size_t{1} << 21;
  constexpr size_t kLongestNumber = 256;
  std::ifstream file(path);
  if (!file.is_open()) return false;
  for (std::string word; file >> std::setw(kLongestNumber) >> word;) {
    if (scales->size() == kMostScales || word.size() == kLongestNumber) return false;
    if (!absl::SimpleAtof(word, &scales->emplace_back())) return false;
  }
  return file.eof() && !scales->empty();
}

// False where there is no such key, or the value is not of its type.
bool SetField(absl::string_view key, absl::string_view value, CacheProfile* profile) {
  if (key == "name") return profile->name = std::string(value), true;
  if (key == "layers") return absl::SimpleAtoi(value, &profile->layers);
  if (key == "kv_heads") return absl::SimpleAtoi(value, &profile->kv_heads);
  if (key == "head_dim") return absl::SimpleAtoi(value, &profile->head_dim);
  if (key == "dtype") return ParseDType(value, &profile->dtype);
  if (key == "kv_dtype") return profile->float8 = value == Name(CacheDType::kFloat8);
  if (key == "kv_scales") return ReadScales(std::string(value), &profile->kv_scales);
  if (key == "page_tokens") return absl::SimpleAtoi(value, &profile->page_tokens);
  if (key == "pages") return absl::SimpleAtoi(value, &profile->pages);
  if (key == "host_pages") return absl::SimpleAtoi(value, &profile->host_pages);
  if (key == "max_tokens") return absl::SimpleAtoi(value, &profile->max_tokens);
  if (key == "max_sequences") return absl::SimpleAtoi(value, &profile->max_sequences);
  if (key == "tenant_share") return absl::SimpleAtod(value, &profile->tenant_share);
  if (key == "lease") return absl::ParseDuration(value, &profile->lease);
  return false;
}

}  // namespace

absl::StatusOr<std::vector<CacheProfile>> ParseCacheProfiles(absl::string_view text) {
  std::vector<CacheProfile> profiles;
  for (const absl::string_view one : absl::StrSplit(text, ';', absl::SkipWhitespace())) {
    CacheProfile profile;
    for (const absl::string_view field : absl::StrSplit(one, ',')) {
      const std::pair<absl::string_view, absl::string_view> key_and_value =
          absl::StrSplit(field, absl::MaxSplits('=', 1));
      if (!SetField(absl::StripAsciiWhitespace(key_and_value.first), absl::StripAsciiWhitespace(key_and_value.second),
                    &profile)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "kv_profiles: profile ", profiles.size(), ": \"", absl::CHexEscape(field.substr(0, kMostShown)),
            "\" is no key=value that is known, or names no file of numbers"));
      }
    }
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

}  // namespace tessera
