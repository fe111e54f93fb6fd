#include "server/request/resident_cache.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tessera {
namespace {

int64_t Share(double share, int64_t whole) {
  return std::max<int64_t>(1, static_cast<int64_t>(share * static_cast<double>(whole)));
}

SequenceCacheOptions OptionsFor(const CacheProfile& profile) {
  SequenceCacheOptions options;
  options.layers = profile.layers;
  options.page_tokens = profile.page_tokens;
  options.device_pages = profile.pages;
  options.max_sequences = profile.max_sequences;
  options.max_tokens = profile.max_tokens;
  options.lease = profile.lease;
  options.quota.sequences = Share(profile.tenant_share, profile.max_sequences);
  options.quota.device_pages = Share(profile.tenant_share, profile.pages);
  return options;
}

}  // namespace

ResidentCache::ResidentCache(const CacheProfile& profile, size_t device, std::unique_ptr<StagingPool::Region> pages,
                             const Clock* clock)
    : profile_(profile), device_(device), pages_(profile, std::move(pages)), sequences_(OptionsFor(profile), clock) {}

}  // namespace tessera
