// The cache as a naive model, for the property test: rows are kept one by one, pages are counted by shared pointers,
// and everything is searched for.
#ifndef TESSERA_SERVER_CACHE_NAIVE_CACHE_H_
#define TESSERA_SERVER_CACHE_NAIVE_CACHE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/cache/page.h"

namespace tessera {

// Pages by place.
using PlaceCounts = std::array<int64_t, kPlaces>;

// One page: counted as long as anything points to it.
class NaivePage {
 public:
  NaivePage(Place place, PlaceCounts& of_tenant) : place_(place), of_tenant_(of_tenant) { ++count(); }
  NaivePage(const NaivePage&) = delete;
  NaivePage& operator=(const NaivePage&) = delete;
  ~NaivePage() { --count(); }

  bool on_host() const { return place_ == Place::kHost; }

 private:
  int64_t& count() { return of_tenant_[static_cast<size_t>(place_)]; }

  const Place place_;
  PlaceCounts& of_tenant_;
};
using NaivePagePtr = std::shared_ptr<NaivePage>;

struct NaiveStep;

struct NaiveSequence {
  size_t tenant = 0;
  std::vector<std::vector<int64_t>> rows;  // [layers], then the value of each token
  std::vector<NaivePagePtr> pages, outlived;
  int pins = 0, writers = 0;
  std::vector<const NaiveStep*> writing;  // [layers]
  const NaiveStep* changing = nullptr;
  bool released = false;
  absl::Time last_use;
  int64_t order = 0;  // of last uses

  bool in_use() const { return pins > 0 || changing != nullptr; }
  int64_t longest() const;
};
using NaiveSequencePtr = std::shared_ptr<NaiveSequence>;

struct NaiveEntry {
  NaiveSequencePtr sequence;
  int layer = 0;
  std::vector<int64_t> rows;  // to append
};

struct NaiveStep {
  bool spills = false;
  std::vector<NaiveEntry> uses;
  std::map<NaiveSequencePtr, std::map<size_t, NaivePagePtr>> fresh;  // by place in the table
};
using NaiveStepPtr = std::unique_ptr<NaiveStep>;

struct NaiveLimits {
  int layers;
  int64_t page_tokens, max_tokens, max_sequences;
  PlaceCounts pages;         // of the cache
  PlaceCounts tenant_pages;  // of one tenant
  int64_t tenant_sequences;
  absl::Duration lease;
};

class NaiveCache {
 public:
  NaiveCache(const NaiveLimits& limits, size_t tenants) : limits_(limits), used_(tenants), sequences_of_(tenants) {}

  bool Live(size_t tenant, const NaiveSequencePtr& sequence, absl::Time now) const;

  absl::StatusCode Create(size_t tenant, int64_t count, absl::Time now, std::vector<NaiveSequencePtr>* created);
  absl::StatusCode Fork(size_t tenant, const NaiveSequencePtr& source, std::optional<int64_t> length, absl::Time now,
                        NaiveSequencePtr* fork);
  absl::StatusCode Truncate(size_t tenant, const NaiveSequencePtr& sequence, int64_t length, absl::Time now);
  absl::StatusCode Release(size_t tenant, const NaiveSequencePtr& sequence, absl::Time now);
  absl::StatusCode Get(size_t tenant, const NaiveSequencePtr& sequence, absl::Time now);
  int64_t Expire(int64_t most, absl::Time now);

  absl::StatusCode Reserve(size_t tenant, const std::vector<NaiveEntry>& entries, absl::Time now, NaiveStepPtr* step,
                           int64_t* missing);
  // Null where nothing can be moved.
  NaiveStepPtr Spill(int64_t pages);
  void End(NaiveStepPtr step, bool commit, absl::Time now);

  int64_t used(Place place) const;
  int64_t sequences() const { return static_cast<int64_t>(all_.size()); }

 private:
  int64_t PagesFor(int64_t tokens) const { return (tokens + limits_.page_tokens - 1) / limits_.page_tokens; }
  absl::StatusCode Room(size_t tenant, int64_t count) const;
  NaiveSequencePtr Open(size_t tenant, absl::Time now);
  void Use(NaiveSequence& sequence, absl::Time now);
  void End(const NaiveSequencePtr& sequence);
  void Settle(const NaiveSequencePtr& sequence);
  absl::StatusCode Admit(size_t tenant, const NaiveEntry& entry, absl::Time now, NaiveStep& step);
  int64_t Kept(const NaiveStep& step) const;
  std::vector<NaiveSequencePtr> IdleByLastUse() const;

  const NaiveLimits limits_;
  std::vector<PlaceCounts> used_;      // by tenant
  std::vector<int64_t> sequences_of_;  // by tenant
  std::vector<NaiveSequencePtr> all_;  // with their pages
  int64_t uses_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CACHE_NAIVE_CACHE_H_
