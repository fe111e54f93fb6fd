#include "server/rpc/sequence_environment.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tessera {

absl::StatusOr<ResidentCachePtr> SequenceEnvironment::OfProfile(absl::string_view name) const {
  for (const ResidentCachePtr& cache : caches) {
    if (cache->profile().name == name) return cache;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("profile: the server has none of this name, but ", caches.size(), " others"));
}

absl::StatusOr<SequenceEnvironment::Named> SequenceEnvironment::OfHandle(absl::string_view bytes) const {
  const absl::StatusOr<SequenceHandle> handle = names.Decode(bytes);
  if (!handle.ok()) return handle.status();
  for (const ResidentCachePtr& cache : caches) {
    if (cache->sequences().epoch() == handle->epoch) return Named{cache, *handle};
  }
  return NoSuchSequence();
}

}  // namespace tessera
