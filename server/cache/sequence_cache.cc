#include "server/cache/sequence_cache.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"

namespace tessera {

SequenceCache::SequenceCache(const SequenceCacheOptions& options, const Clock* clock)
    : options_(options),
      page_shift_(std::countr_zero(static_cast<uint64_t>(options.page_tokens))),
      clock_(clock),
      device_(Place::kDevice, options.device_pages),
      host_(Place::kHost, options.host_pages),
      tenants_(options.quota, options.quotas),
      slots_(options.layers),
      epoch_(slots_.epoch()) {
  ABSL_RAW_CHECK(options.layers >= 1, "a cache has layers");
  ABSL_RAW_CHECK(options.page_tokens >= 1 && std::has_single_bit(static_cast<uint64_t>(options.page_tokens)),
                 "page_tokens is a power of two");
  ABSL_RAW_CHECK(options.lease > absl::ZeroDuration(), "a lease lasts");
}

SequenceCache::~SequenceCache() {
  absl::MutexLock lock(&mutex_);
  ABSL_RAW_CHECK(steps_.empty(), "the cache outlives its steps");
}

absl::StatusOr<std::vector<SequenceHandle>> SequenceCache::Create(absl::string_view tenant_name, int64_t count) {
  if (count < 1) return absl::InvalidArgumentError(absl::StrCat("count must be at least 1, got ", count));
  absl::MutexLock lock(&mutex_);
  const absl::Status room = CheckRoom(tenants_.QuotaOf(tenant_name), tenants_.Find(tenant_name), count);
  if (!room.ok()) return room;
  Tenant& tenant = tenants_.FindOrAdd(tenant_name);
  const absl::Time now = clock_->Now();
  std::vector<SequenceHandle> handles;
  handles.reserve(count);
  for (int64_t i = 0; i < count; ++i) handles.push_back(slots_.HandleOf(Open(tenant, now)));
  return handles;
}

absl::StatusOr<SequenceHandle> SequenceCache::Fork(absl::string_view tenant, const SequenceHandle& handle,
                                                   std::optional<int64_t> length) {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = clock_->Now();
  const absl::StatusOr<Sequence*> found = Find(tenant, handle, now);
  if (!found.ok()) return found.status();
  Sequence& source = **found;
  Touch(source, now);
  if (source.writers > 0) return absl::AbortedError("the sequence is being extended");
  const int64_t longest = source.longest();
  const int64_t kept = length.value_or(longest);
  if (kept < 0 || kept > longest) {
    return absl::InvalidArgumentError(absl::StrCat("length must be 0 to the sequence's ", longest, ", got ", kept));
  }
  if (absl::Status room = CheckRoom(source.tenant->quota, source.tenant, 1); !room.ok()) return room;
  if (absl::Status room = CheckTables(*source.tenant, PagesFor(kept)); !room.ok()) return room;

  Sequence& fork = Open(*source.tenant, now);
  for (int layer = 0; layer < options_.layers; ++layer) fork.lengths[layer] = std::min(source.lengths[layer], kept);
  fork.table.assign(source.table.begin(), source.table.begin() + PagesFor(kept));
  CountTablePages(*fork.tenant, PagesFor(kept));
  for (PageRef page : fork.table) {
    pool(page).Share(page);
    if (page.place() == Place::kHost) ++fork.host_pages;
  }
  return slots_.HandleOf(fork);
}

absl::Status SequenceCache::Truncate(absl::string_view tenant, const SequenceHandle& handle, int64_t length) {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = clock_->Now();
  const absl::StatusOr<Sequence*> found = Find(tenant, handle, now);
  if (!found.ok()) return found.status();
  Sequence& sequence = **found;
  Touch(sequence, now);
  if (sequence.in_use()) return absl::AbortedError("the sequence is in use by another call");
  const int64_t longest = sequence.longest();
  if (length < 0 || length > longest) {
    return absl::InvalidArgumentError(absl::StrCat("length must be 0 to the sequence's ", longest, ", got ", length));
  }
  for (int64_t& of_layer : sequence.lengths) of_layer = std::min(of_layer, length);
  DropTable(sequence, PagesFor(length));
  return absl::OkStatus();
}

absl::Status SequenceCache::Release(absl::string_view tenant, const SequenceHandle& handle) {
  absl::MutexLock lock(&mutex_);
  const absl::StatusOr<Sequence*> found = Find(tenant, handle, clock_->Now());
  if (!found.ok()) return found.status();
  End(**found);
  return absl::OkStatus();
}

absl::StatusOr<SequenceInfo> SequenceCache::Get(absl::string_view tenant, const SequenceHandle& handle) {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = clock_->Now();
  const absl::StatusOr<Sequence*> found = Find(tenant, handle, now);
  if (!found.ok()) return found.status();
  Sequence& sequence = **found;
  Touch(sequence, now);
  const int64_t pages = static_cast<int64_t>(sequence.table.size());
  return SequenceInfo{.lengths = sequence.lengths,
                      .device_pages = pages - sequence.host_pages,
                      .host_pages = sequence.host_pages,
                      .expires = now + options_.lease};
}

absl::StatusOr<int64_t> SequenceCache::LayerLength(absl::string_view tenant, const SequenceHandle& handle,
                                                   int32_t layer) {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = clock_->Now();
  const absl::StatusOr<Sequence*> found = Find(tenant, handle, now);
  if (!found.ok()) return found.status();
  if (layer < 0 || layer >= options_.layers) {
    return absl::InvalidArgumentError(absl::StrCat("layer must be 0 to ", options_.layers - 1, ", got ", layer));
  }
  Touch(**found, now);
  return (*found)->lengths[layer];
}

int64_t SequenceCache::Expire(int64_t most) {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = clock_->Now();
  int64_t ended = 0;
  for (Sequence* oldest = idle_.front(); oldest != nullptr && ended < most && Expired(*oldest, now);
       oldest = idle_.front()) {
    End(*oldest);
    ++ended;
  }
  return ended;
}

absl::Time SequenceCache::next_expiry() const {
  absl::MutexLock lock(&mutex_);
  const Sequence* oldest = idle_.front();
  return oldest == nullptr ? absl::InfiniteFuture() : oldest->last_use + options_.lease;
}

CacheCounts SequenceCache::counts() const {
  absl::MutexLock lock(&mutex_);
  return {.device = {device_.total(), device_.free()},
          .host = {host_.total(), host_.free()},
          .sequences = slots_.open(),
          .steps = static_cast<int64_t>(steps_.size()),
          .pages_to_host = pages_to_host_,
          .pages_from_host = pages_from_host_};
}

absl::StatusOr<Sequence*> SequenceCache::Find(absl::string_view tenant, const SequenceHandle& handle, absl::Time now) {
  Sequence* const sequence = slots_.Find(tenant, handle);
  if (sequence == nullptr || Expired(*sequence, now)) return NoSuchSequence();
  return sequence;
}

absl::Status SequenceCache::CheckRoom(const TenantQuota& quota, const Tenant* tenant, int64_t count) const {
  const int64_t most = std::min(quota.sequences, options_.max_sequences);
  if (count > most) {
    return absl::InvalidArgumentError(absl::StrCat("at most ", most, " sequences are possible, got ", count));
  }
  if (tenant != nullptr && tenant->sequences > quota.sequences - count) {
    return absl::ResourceExhaustedError(absl::StrCat("the quota of ", quota.sequences, " sequences is used up"));
  }
  if (slots_.open() > options_.max_sequences - count) {
    return absl::ResourceExhaustedError("the cache has no room for more sequences");
  }
  return absl::OkStatus();
}

absl::Status SequenceCache::CheckTables(const Tenant& tenant, int64_t more) const {
  if (tenant.table_pages > tenant.quota.table_pages - more) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the quota of ", tenant.quota.table_pages, " pages in the tables of sequences is used up"));
  }
  if (table_pages_ > options_.max_table_pages - more) {
    return absl::ResourceExhaustedError("the cache has no room for more pages in the tables of sequences");
  }
  return absl::OkStatus();
}

Sequence& SequenceCache::Open(Tenant& tenant, absl::Time now) {
  Sequence& sequence = slots_.Open(tenant);
  ++tenant.sequences;
  sequence.last_use = now;
  idle_.Append(sequence);
  return sequence;
}

void SequenceCache::Touch(Sequence& sequence, absl::Time now) {
  if (sequence.pins > 0) return;  // its lease begins when the last pin goes
  sequence.last_use = now;
  idle_.Remove(sequence);
  idle_.Append(sequence);
}

void SequenceCache::End(Sequence& sequence) {
  sequence.released = true;
  if (sequence.pins == 0) idle_.Remove(sequence);
  if (!sequence.in_use()) Settle(sequence);
}

void SequenceCache::Settle(Sequence& sequence) {
  for (PageRef page : sequence.outlived) DropPage(page, sequence);
  sequence.outlived.clear();
  if (!sequence.released) return;
  DropTable(sequence, 0);
  Tenant& tenant = *sequence.tenant;
  slots_.Close(sequence);
  --tenant.sequences;
  tenants_.DropIfIdle(tenant);
}

void SequenceCache::DropPage(PageRef page, Sequence& sequence) { pool(page).Drop(page, *sequence.tenant); }

void SequenceCache::DropTable(Sequence& sequence, size_t keep) {
  for (size_t i = sequence.table.size(); i > keep; --i) {
    const PageRef page = sequence.table[i - 1];
    if (page.place() == Place::kHost) --sequence.host_pages;
    DropPage(page, sequence);
  }
  CountTablePages(*sequence.tenant, static_cast<int64_t>(keep) - static_cast<int64_t>(sequence.table.size()));
  sequence.table.resize(keep);
  sequence.table.shrink_to_fit();  // what is counted is what is held
}

}  // namespace tessera
