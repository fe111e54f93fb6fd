#include "server/request/cache_profile.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/cache/page.h"

namespace tessera {
namespace {

// Such products of them fit into 63 bits: bytes of a page at most 2^51, of all pages 2^62 by the check of their sum.
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxTokens = int64_t{1} << 32;
constexpr int64_t kMaxSequences = int64_t{1} << 24;
constexpr int64_t kMaxBytes = int64_t{1} << 46;

}  // namespace

absl::Status Validate(const CacheProfile& profile) {
  const std::string shown = absl::CHexEscape(profile.name.substr(0, CacheProfile::kMaxNameBytes));
  const auto refuse = [&shown](const auto&... why) {
    return absl::InvalidArgumentError(absl::StrCat("kv_profiles: profile \"", shown, "\": ", why...));
  };
  if (profile.name.empty()) return refuse("a profile has a name");
  if (profile.name.size() > CacheProfile::kMaxNameBytes) {
    return refuse("name: ", profile.name.size(), " bytes, at most ", CacheProfile::kMaxNameBytes);
  }
  // It is a string of messages, which are UTF-8, and a label.
  if (!std::all_of(profile.name.begin(), profile.name.end(), absl::ascii_isprint)) {
    return refuse("name: only printable ASCII");
  }
  struct Range {
    const char* field;
    int64_t value;
    int64_t lowest;
    int64_t highest;
  };
  for (const Range& range :
       {Range{"layers", profile.layers, 1, kMaxLayers}, Range{"kv_heads", profile.kv_heads, 1, kMaxHeads},
        Range{"head_dim", profile.head_dim, 8, 256}, Range{"page_tokens", profile.page_tokens, 1, kMaxPageTokens},
        Range{"pages", profile.pages, 1, kMaxPages}, Range{"host_pages", profile.host_pages, 0, kMaxPages},
        Range{"max_tokens", profile.max_tokens, 1, kMaxTokens},
        Range{"max_sequences", profile.max_sequences, 1, kMaxSequences}}) {
    if (range.value < range.lowest || range.value > range.highest) {
      return refuse(range.field, ": ", range.value, " is not in ", range.lowest, " to ", range.highest);
    }
  }
  if (profile.head_dim % 8 != 0) return refuse("head_dim: ", profile.head_dim, " is not a multiple of 8");
  if (!std::has_single_bit(static_cast<uint64_t>(profile.page_tokens))) {
    return refuse("page_tokens: ", profile.page_tokens, " is not a power of two");
  }
  if (profile.page_bytes() > kMaxBytes / std::max(profile.pages, profile.host_pages)) {
    return refuse("pages, host_pages: they take more than ", kMaxBytes, " bytes");
  }
  if (!profile.kv_scales.empty()) {
    const auto needed = static_cast<size_t>(profile.layers) * 2 * static_cast<size_t>(profile.kv_heads);
    if (!profile.float8) return refuse("kv_scales: only fp8 has scales");
    if (profile.kv_scales.size() != needed) {
      return refuse("kv_scales: ", profile.kv_scales.size(), " scales, of K's and V's heads in all layers there are ",
                    needed);
    }
    for (const float scale : profile.kv_scales) {
      if (!(scale > 0 && std::isfinite(scale))) return refuse("kv_scales: ", scale, " is not positive and finite");
    }
  }
  if (!(profile.tenant_share > 0 && profile.tenant_share <= 1)) {
    return refuse("tenant_share: ", profile.tenant_share, " is not above 0 and at most 1");
  }
  if (profile.lease <= absl::ZeroDuration()) return refuse("lease: a lease lasts");
  return absl::OkStatus();
}

}  // namespace tessera
