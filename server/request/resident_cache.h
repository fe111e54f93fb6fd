// One profile's resident sequences: their bookkeeping, the memory of their pages, and the order of calls on them.
#ifndef TESSERA_SERVER_REQUEST_RESIDENT_CACHE_H_
#define TESSERA_SERVER_REQUEST_RESIDENT_CACHE_H_

#include <cstddef>
#include <memory>

#include "server/cache/sequence_cache.h"
#include "server/clock/clock.h"
#include "server/memory/staging_pool.h"
#include "server/request/cache_profile.h"
#include "server/request/page_spills.h"
#include "server/request/page_store.h"
#include "server/request/sequence_turns.h"

namespace tessera {

// Shared by the server and the jobs that use it: a device that hangs may hold a job, and so its pages, for ever.
class ResidentCache {
 public:
  // The clock outlives the cache. REQUIRES: as for PageStore; `pages` is memory of the server's device `device`, and
  // `host_pages` such as it copies to and from.
  ResidentCache(const CacheProfile& profile, size_t device, std::unique_ptr<StagingPool::Region> pages,
                const Clock* clock, std::unique_ptr<StagingPool::Region> host_pages = nullptr);

  const CacheProfile& profile() const { return profile_; }
  size_t device() const { return device_; }
  const PageStore& pages() const { return pages_; }
  SequenceCache& sequences() { return sequences_; }
  SequenceTurns& turns() { return turns_; }
  PageSpills& spills() { return spills_; }

 private:
  const CacheProfile profile_;
  const size_t device_;
  const PageStore pages_;
  SequenceCache sequences_;
  SequenceTurns turns_;
  PageSpills spills_;
};

using ResidentCachePtr = std::shared_ptr<ResidentCache>;

}  // namespace tessera

#endif  // TESSERA_SERVER_REQUEST_RESIDENT_CACHE_H_
