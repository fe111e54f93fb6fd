// Every invariant of sequence_cache.h, recounted from nothing.
#include <array>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "server/cache/sequence_cache.h"

namespace tessera {
namespace {

absl::Status Broken(absl::string_view what) { return absl::InternalError(absl::StrCat("broken invariant: ", what)); }

// References to pages, and whose they are.
class PageCensus {
 public:
  PageCensus(int64_t device_pages, int64_t host_pages) {
    references_[0].resize(device_pages);
    references_[1].resize(host_pages);
    owners_[0].resize(device_pages);
    owners_[1].resize(host_pages);
  }

  void Count(PageRef page, const Tenant& owner) {
    const size_t place = static_cast<size_t>(page.place());
    const Tenant*& known = owners_[place][page.number()];
    if (references_[place][page.number()]++ == 0) {
      known = &owner;
      ++pages_[&owner][place];
    }
    if (known != &owner) shared_between_tenants_ = true;
  }

  const std::vector<int32_t>& references(Place place) const { return references_[static_cast<size_t>(place)]; }
  std::array<int64_t, kPlaces> pages_of(const Tenant& tenant) const {
    const auto found = pages_.find(&tenant);
    return found == pages_.end() ? std::array<int64_t, kPlaces>{} : found->second;
  }
  bool shared_between_tenants() const { return shared_between_tenants_; }

 private:
  std::array<std::vector<int32_t>, kPlaces> references_;
  std::array<std::vector<const Tenant*>, kPlaces> owners_;
  absl::flat_hash_map<const Tenant*, std::array<int64_t, kPlaces>> pages_;
  bool shared_between_tenants_ = false;
};

}  // namespace

absl::Status SequenceCache::CheckInvariants() const {
  absl::MutexLock lock(&mutex_);
  PageCensus census(device_.total(), host_.total());
  absl::flat_hash_map<const Sequence*, int32_t> pins, writers;
  absl::flat_hash_map<const Tenant*, int64_t> sequences, table_pages;

  for (const StepState* step : steps_) {
    for (size_t i = 0; i < step->changes.size(); ++i) {
      const StepState::TableChange& change = step->changes[i];
      const Sequence& sequence = *change.sequence;
      if (sequence.changing != step || sequence.change != i) return Broken("5: a change that its sequence denies");
      table_pages[sequence.tenant] += static_cast<int64_t>(change.table.size() - sequence.table.size());
      for (size_t page = 0; page < change.table.size(); ++page) {
        if (!change.table[page].exists()) return Broken("a step without its pages");
        const bool own = page >= sequence.table.size() || change.table[page] != sequence.table[page];
        if (own) census.Count(change.table[page], *sequence.tenant);
      }
    }
    for (const StepState::Use& use : step->uses) {
      ++pins[use.sequence];
      if (use.tokens == 0) continue;
      ++writers[use.sequence];
      if (use.sequence->writing[use.layer] != step) return Broken("5: an append that its sequence denies");
      const std::vector<PageRef>& table =
          use.sequence->changing == step ? step->changes[use.sequence->change].table : use.sequence->table;
      const int64_t before = use.sequence->lengths[use.layer];
      for (int64_t i = before >> page_shift_; i < PagesFor(before + use.tokens); ++i) {
        if (table[i].place() != Place::kDevice || device_.references(table[i]) != 1) {
          return Broken("4: a page that is written and not the step's alone");
        }
        const StepState* const changing = use.sequence->changing;
        if (changing != nullptr && changing != step && changing->changes[use.sequence->change].table[i] != table[i]) {
          return Broken("4: a page that is written and about to be replaced");
        }
      }
    }
  }

  for (const Sequence& sequence : slots_.all()) {
    if (sequence.tenant == nullptr) continue;
    ++sequences[sequence.tenant];
    table_pages[sequence.tenant] += static_cast<int64_t>(sequence.table.size());
    int64_t on_host = 0;
    for (PageRef page : sequence.table) {
      census.Count(page, *sequence.tenant);
      if (page.place() == Place::kHost) ++on_host;
    }
    for (PageRef page : sequence.outlived) census.Count(page, *sequence.tenant);
    if (on_host != sequence.host_pages) return Broken("pages on the host");
    if (static_cast<int64_t>(sequence.table.size()) != PagesFor(sequence.longest())) {
      return Broken("3: the table is not as long as the longest layer");
    }
    const auto count = [&sequence](const auto& of) {
      const auto found = of.find(&sequence);
      return found == of.end() ? 0 : found->second;
    };
    if (sequence.pins != count(pins) || sequence.writers != count(writers)) return Broken("pins or writers");
    if (sequence.changing != nullptr && !steps_.contains(sequence.changing)) return Broken("5: changed by no step");
    if (sequence.changing != nullptr && sequence.changing->spills && sequence.writers > 0) {
      return Broken("5: extended while it is spilled");
    }
    if (!sequence.in_use() && (sequence.released || !sequence.outlived.empty())) return Broken("6: not settled");
    const bool idle = sequence.idle_after != nullptr;
    if (idle != (!sequence.released && sequence.pins == 0)) return Broken("6: who is idle");
    if (idle && sequence.idle_after->tenant != nullptr && sequence.idle_after->last_use < sequence.last_use) {
      return Broken("6: the order of the idle");
    }
  }

  if (census.shared_between_tenants()) return Broken("2: a page of two tenants");
  if (!device_.Agrees(census.references(Place::kDevice)) || !host_.Agrees(census.references(Place::kHost))) {
    return Broken("1: references or free pages");
  }
  if (sequences.size() != tenants_.tenants().size()) return Broken("tenants without sequences");
  int64_t all_table_pages = 0;
  for (const auto& [name, tenant] : tenants_.tenants()) {
    if (tenant->table_pages != table_pages[tenant.get()]) return Broken("3: pages in a tenant's tables");
    all_table_pages += tenant->table_pages;
    if (tenant->pages != census.pages_of(*tenant)) return Broken("2: pages of a tenant");
    if (tenant->sequences != sequences[tenant.get()]) return Broken("sequences of a tenant");
  }
  if (table_pages_ != all_table_pages) return Broken("3: pages in all tables");
  return absl::OkStatus();
}

}  // namespace tessera
