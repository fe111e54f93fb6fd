#include "server/request/resident_cache.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tessera {
namespace {

int64_t Share(double share, int64_t whole) {
  return std::max<int64_t>(1, static_cast<int64_t>(share * static_cast<double>(whole)));
}

// In the tables of a profile's sequences, 64 MiB of them: those of 4096 sequences of 2^17 tokens in pages of 64 are
// half of it.
constexpr int64_t kTablePages = int64_t{1} << 24;

SequenceCacheOptions OptionsFor(const CacheProfile& profile) {
  SequenceCacheOptions options;
  options.layers = profile.layers;
  options.page_tokens = profile.page_tokens;
  options.device_pages = profile.pages;
  options.host_pages = profile.host_pages;
  options.max_sequences = profile.max_sequences;
  options.max_tokens = profile.max_tokens;
  // Sequences that share nothing never have more than there are pages.
  options.max_table_pages = std::max(kTablePages, int64_t{profile.pages} + profile.host_pages);
  options.lease = profile.lease;
  options.quota.sequences = Share(profile.tenant_share, profile.max_sequences);
  options.quota.table_pages = Share(profile.tenant_share, options.max_table_pages);
  // Who may have all pages has no quota: idle sequences make room for its steps, as they do for anybody's.
  if (profile.tenant_share < 1) {
    options.quota.device_pages = Share(profile.tenant_share, profile.pages);
    if (profile.host_pages > 0) options.quota.host_pages = Share(profile.tenant_share, profile.host_pages);
  }
  return options;
}

}  // namespace

ResidentCache::ResidentCache(const CacheProfile& profile, size_t device, std::unique_ptr<StagingPool::Region> pages,
                             const Clock* clock, std::unique_ptr<StagingPool::Region> host_pages)
    : profile_(profile),
      device_(device),
      pages_(profile, std::move(pages), std::move(host_pages)),
      sequences_(OptionsFor(profile), clock) {}

}  // namespace tessera
