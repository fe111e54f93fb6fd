// The resident KV cache of one profile: sequences, the pages they live in, and who may use them.
//
// A *profile* fixes layers and the bytes of a row; here only the number of layers matters, for the cache deals in ids
// and never in memory. A *page* holds page_tokens tokens of one sequence in all layers, so that one table serves them
// all, and layers may be at different lengths while a step makes its way through them. Sequences share pages after a
// fork; a shared page is copied before it is written (copy on write). Pages of idle sequences can be moved to the host
// and come back when the sequence is next used.
//
// Work is done in *steps* (cache_step.h). Reserve sets aside everything that a step needs, over all of its entries, or
// nothing; the device works; Commit makes it so, and a step that is dropped leaves no trace. What a step reads stays
// where it is until the step is over, whoever releases or forks the sequence meanwhile.
//
// Invariants, checked by CheckInvariants:
//   1. Every page is free or in use, never both: free + in use == total, in both places. A page's references are its
//      places in tables, in the tables that steps will leave, and among pages that steps have outlived.
//   2. A page in use belongs to one tenant, whose account counts it once. No two tenants share a page, and a page that
//      changes hands is on some step's scrub list first.
//   3. A table has as many pages as the sequence's longest layer needs, and none more. A tenant's account counts the
//      pages of its tables, with those that steps will add.
//   4. The pages that a step writes are on the device and nobody else's: one reference, that of the step's table. No
//      other step is about to replace them.
//   5. At most one step changes a sequence's table, and at most one appends to a layer; while a step spills a
//      sequence none appends to it. (Who comes second is refused with ABORTED.)
//   6. A sequence is in the idle list exactly if it is live and has no pin; the list is in order of last use.
//      A sequence that no step uses is not released, and nothing of it is outlived.
//
// Leases: a sequence that no step and no call has touched for `lease` is gone. Handles: an unknown, foreign, stale or
// expired one gives NOT_FOUND with the same message.
#ifndef TESSERA_SERVER_CACHE_SEQUENCE_CACHE_H_
#define TESSERA_SERVER_CACHE_SEQUENCE_CACHE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/cache/cache_step.h"
#include "server/cache/page.h"
#include "server/cache/page_pool.h"
#include "server/cache/sequence.h"
#include "server/cache/sequence_handle.h"
#include "server/cache/sequence_slots.h"
#include "server/cache/tenant_ledger.h"
#include "server/clock/clock.h"

namespace tessera {

struct SequenceCacheOptions {
  int layers = 1;             // at least 1
  int64_t page_tokens = 64;   // a power of two
  int32_t device_pages = 0;   // 0 to kMaxPages
  int32_t host_pages = 0;     // likewise; 0: nothing is spilled
  int64_t max_sequences = 0;  // of all tenants
  int64_t max_tokens = 0;     // of one sequence
  // Of the tables of all sequences, a page that several share counting in each: forks cost no page, but four bytes of
  // the host's memory for each of theirs, and steps under way as much again.
  int64_t max_table_pages = TenantQuota::kUnlimited;
  absl::Duration lease = absl::Minutes(5);
  TenantQuota quota{};  // of tenants that have no entry in `quotas`
  absl::flat_hash_map<std::string, TenantQuota> quotas{};
};

struct SequenceInfo {
  std::vector<int64_t> lengths;  // [layers], tokens
  int64_t device_pages = 0;      // those shared with other sequences among them
  int64_t host_pages = 0;
  absl::Time expires;  // on the cache's clock, unless it is used before
};

struct PageCounts {
  int64_t total = 0;
  int64_t free = 0;
};

struct CacheCounts {
  PageCounts device;
  PageCounts host;
  int64_t sequences = 0;  // released ones that a step still holds among them
  int64_t steps = 0;      // under way
  // Moved since the cache was made; moves that were rolled back not among them.
  int64_t pages_to_host = 0;
  int64_t pages_from_host = 0;
};

// Thread-safe. No call blocks on anything but the cache's own lock.
class SequenceCache {
 public:
  // REQUIRES: options within the limits above; the clock outlives the cache.
  SequenceCache(const SequenceCacheOptions& options, const Clock* clock);
  SequenceCache(const SequenceCache&) = delete;
  SequenceCache& operator=(const SequenceCache&) = delete;
  // REQUIRES: no step is under way.
  ~SequenceCache();

  // `count` empty sequences, or none: RESOURCE_EXHAUSTED where the tenant or the cache has too many, INVALID_ARGUMENT
  // where `count` is below 1 or can never fit.
  absl::StatusOr<std::vector<SequenceHandle>> Create(absl::string_view tenant, int64_t count);

  // A new sequence that begins as the first `length` tokens of another (each layer as far as it goes; all of it where
  // no length is given) and shares its pages. INVALID_ARGUMENT where the length is negative or beyond the longest
  // layer; ABORTED while a step appends to the other one; RESOURCE_EXHAUSTED as for Create, or where the tables have
  // become too long.
  absl::StatusOr<SequenceHandle> Fork(absl::string_view tenant, const SequenceHandle& handle,
                                      std::optional<int64_t> length);

  // Cuts every layer to at most `length` tokens. INVALID_ARGUMENT as for Fork; ABORTED while a step uses the sequence.
  absl::Status Truncate(absl::string_view tenant, const SequenceHandle& handle, int64_t length);

  // Ends the sequence. Its pages become free at once or, if a step uses it, with the end of that step.
  absl::Status Release(absl::string_view tenant, const SequenceHandle& handle);

  // Renews the lease, as every use does.
  absl::StatusOr<SequenceInfo> Get(absl::string_view tenant, const SequenceHandle& handle);

  // Sets aside everything that `entries` need. An entry that reads what another one of the same step appends sees the
  // layer as it was before. Refused as a whole, with nothing changed but leases renewed:
  //   NOT_FOUND           a handle is not good
  //   INVALID_ARGUMENT    a layer out of range, tokens negative, a layer appended to twice, a sequence beyond
  //                       max_tokens, or sequences of more pages together than there are or the tenant may have
  //   RESOURCE_EXHAUSTED  not enough pages, or the tenant's quota is used up, or tables have become too long.
  //                       `*missing`, if not null, then is the number of device pages that would have to become free;
  //                       0 where it is something else
  //   ABORTED             another step appends to the layer, or changes or spills the sequence's pages
  absl::StatusOr<CacheStep> Reserve(absl::string_view tenant, absl::Span<const StepEntry> entries,
                                    int64_t* missing = nullptr);

  // A step without entries that moves pages of idle sequences to the host, the longest idle first, so that at least
  // `pages` device pages become free, or as many as can. Pages that sequences share stay. Nothing where not a single
  // page can be moved.
  std::optional<CacheStep> Spill(int64_t pages);

  // Ends up to `most` sequences whose lease is over, and returns how many. So a sweep is bounded.
  int64_t Expire(int64_t most);
  // When the next lease ends if nothing is used before; InfiniteFuture where no sequence is idle.
  absl::Time next_expiry() const;

  // Tokens of one layer, for an estimate of what a step will cost; renews the lease. NOT_FOUND, or INVALID_ARGUMENT for
  // a layer out of range.
  absl::StatusOr<int64_t> LayerLength(absl::string_view tenant, const SequenceHandle& handle, int32_t layer);

  // What all handles of this cache have in common, and those of no other.
  uint64_t epoch() const { return epoch_; }

  CacheCounts counts() const;

  // INTERNAL naming the invariant that does not hold. Time: all pages and tables.
  absl::Status CheckInvariants() const;

 private:
  friend class CacheStep;

  int64_t PagesFor(int64_t tokens) const { return (tokens + options_.page_tokens - 1) >> page_shift_; }
  PagePool& pool(PageRef page) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return pool(page.place()); }
  PagePool& pool(Place place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return place == Place::kDevice ? device_ : host_;
  }

  bool Expired(const Sequence& sequence, absl::Time now) const {
    return sequence.pins == 0 && sequence.last_use + options_.lease <= now;
  }

  // The live sequence behind a handle. Does not renew its lease.
  absl::StatusOr<Sequence*> Find(absl::string_view tenant, const SequenceHandle& handle, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether there is room for `count` sequences more. `tenant` is null where it has none yet.
  absl::Status CheckRoom(const TenantQuota& quota, const Tenant* tenant, int64_t count) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Likewise for pages.
  absl::Status CheckPages(const Tenant& tenant, int64_t pages, int64_t* missing) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Likewise for `more` pages in its tables, beside those that have been counted.
  absl::Status CheckTables(const Tenant& tenant, int64_t more) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tables of the tenant have become longer, or shorter where `pages` is negative.
  void CountTablePages(Tenant& tenant, int64_t pages) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    tenant.table_pages += pages;
    table_pages_ += pages;
  }
  Sequence& Open(Tenant& tenant, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Renews the lease.
  void Touch(Sequence& sequence, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets go of the sequence: at once, or when no step uses it any more.
  void End(Sequence& sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropPage(PageRef page, Sequence& sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops all pages of the table but the first `keep`.
  void DropTable(Sequence& sequence, size_t keep) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Steps: reserve.cc.
  absl::Status Admit(absl::string_view tenant, const StepEntry& entry, absl::Time now, StepState& step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes, as pages that do not exist yet, those that `tokens` more tokens in `layer` take.
  absl::Status PlanPages(Sequence& sequence, int32_t layer, int64_t tokens, StepState& step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A page for the step, with a note of its scrub. REQUIRES: there is one.
  PageRef TakePage(Place place, Sequence& sequence, StepState& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A change of the sequence's table by the step, at first without a difference. REQUIRES: no step changes it yet.
  StepState::TableChange& AddChange(Sequence& sequence, StepState& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What is to be copied of page `index` of the table.
  PageCopy CopyOf(const Sequence& sequence, size_t index, PageRef to) const;
  // Gives planned pages a device page each. REQUIRES: there are enough.
  void TakePlanned(StepState& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ListPages(StepState& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Pin(Sequence& sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Unpin(Sequence& sequence, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends a step, as if it had never been or as if all had been done. REQUIRES: it is under way, or being reserved.
  void Finish(StepState& step, bool commit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishChange(StepState::TableChange& change, bool commit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishStep(StepState& step, bool commit) ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends what has been put off until no step uses the sequence. REQUIRES: so it is.
  void Settle(Sequence& sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Spilling: spill.cc. Adds to the step a move of at most `pages` pages of one sequence; returns how many.
  int64_t SpillSequence(Sequence& sequence, int64_t pages, StepState& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SequenceCacheOptions options_;
  const int page_shift_;
  const Clock* const clock_;

  mutable absl::Mutex mutex_;
  PagePool device_ ABSL_GUARDED_BY(mutex_);
  PagePool host_ ABSL_GUARDED_BY(mutex_);
  TenantLedger tenants_ ABSL_GUARDED_BY(mutex_);
  SequenceSlots slots_ ABSL_GUARDED_BY(mutex_);
  int64_t table_pages_ ABSL_GUARDED_BY(mutex_) = 0;  // of all tenants
  const uint64_t epoch_;
  IdleList idle_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<const StepState*> steps_ ABSL_GUARDED_BY(mutex_);
  int64_t pages_to_host_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t pages_from_host_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CACHE_SEQUENCE_CACHE_H_
