#include "server/rpc/sequence_calls.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/cache/sequence_handle.h"
#include "server/rpc/extend_header.h"
#include "server/rpc/status.h"

namespace tessera {
namespace {

// Lengths beyond any sequence's stay beyond it.
int64_t ToLength(uint64_t length) {
  return static_cast<int64_t>(std::min<uint64_t>(length, std::numeric_limits<int64_t>::max()));
}

}  // namespace

absl::StatusOr<v1::CreateSequencesResponse> CreateSequences(const SequenceEnvironment& environment,
                                                            absl::string_view tenant,
                                                            const v1::CreateSequencesRequest& request) {
  if (absl::Status open = environment.attend.admission->CheckOpen(); !open.ok()) return open;
  const absl::StatusOr<ResidentCachePtr> cache = environment.OfProfile(request.profile());
  if (!cache.ok()) return cache.status();
  const int64_t count = request.has_count() ? request.count() : 1;
  const absl::StatusOr<std::vector<SequenceHandle>> handles = (*cache)->sequences().Create(tenant, count);
  if (!handles.ok()) return WithReason(handles.status(), RejectReason::kKvPages);
  v1::CreateSequencesResponse response;
  for (const SequenceHandle& handle : *handles) response.add_sequences(environment.names.Encode(handle));
  *response.mutable_profile() = ToMessage((*cache)->profile());
  return response;
}

absl::StatusOr<v1::ForkSequenceResponse> ForkSequence(const SequenceEnvironment& environment, absl::string_view tenant,
                                                      const v1::ForkSequenceRequest& request) {
  if (absl::Status open = environment.attend.admission->CheckOpen(); !open.ok()) return open;
  const absl::StatusOr<SequenceEnvironment::Named> source = environment.OfHandle(request.sequence());
  if (!source.ok()) return source.status();
  std::optional<int64_t> length;
  if (request.has_length()) length = ToLength(request.length());
  const absl::StatusOr<SequenceHandle> fork = source->cache->sequences().Fork(tenant, source->handle, length);
  if (!fork.ok()) return WithReason(fork.status(), RejectReason::kKvPages);
  v1::ForkSequenceResponse response;
  response.set_sequence(environment.names.Encode(*fork));
  return response;
}

absl::StatusOr<v1::TruncateSequenceResponse> TruncateSequence(const SequenceEnvironment& environment,
                                                              absl::string_view tenant,
                                                              const v1::TruncateSequenceRequest& request) {
  const absl::StatusOr<SequenceEnvironment::Named> named = environment.OfHandle(request.sequence());
  if (!named.ok()) return named.status();
  absl::Status status = named->cache->sequences().Truncate(tenant, named->handle, ToLength(request.length()));
  if (!status.ok()) return status;
  return v1::TruncateSequenceResponse();
}

absl::StatusOr<v1::ReleaseSequencesResponse> ReleaseSequences(const SequenceEnvironment& environment,
                                                              absl::string_view tenant,
                                                              const v1::ReleaseSequencesRequest& request) {
  uint32_t released = 0;
  absl::Status elsewhere;
  for (const std::string& handle : request.sequences()) {
    const absl::StatusOr<SequenceEnvironment::Named> named = environment.OfHandle(handle);
    if (named.ok() && named->cache->sequences().Release(tenant, named->handle).ok()) {
      ++released;
      // What waits for its turn would hear the same when that comes.
      named->cache->turns().End(named->handle, NoSuchSequence());
    }
    if (!RedirectOf(named.status()).empty()) elsewhere = named.status();
  }
  if (!elsewhere.ok()) return elsewhere;
  v1::ReleaseSequencesResponse response;
  response.set_released(released);
  return response;
}

absl::StatusOr<v1::GetSequenceResponse> GetSequence(const SequenceEnvironment& environment, absl::string_view tenant,
                                                    const v1::GetSequenceRequest& request) {
  const absl::StatusOr<SequenceEnvironment::Named> named = environment.OfHandle(request.sequence());
  if (!named.ok()) return named.status();
  const absl::StatusOr<SequenceInfo> info = named->cache->sequences().Get(tenant, named->handle);
  if (!info.ok()) return info.status();
  v1::GetSequenceResponse response;
  *response.mutable_profile() = ToMessage(named->cache->profile());
  for (const int64_t length : info->lengths) response.add_lengths(static_cast<uint64_t>(length));
  response.set_pages(static_cast<uint64_t>(info->device_pages + info->host_pages));
  const absl::Duration left = info->expires - environment.attend.clock->Now();
  response.set_expires_in_ms(static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Milliseconds(left))));
  return response;
}

}  // namespace tessera
