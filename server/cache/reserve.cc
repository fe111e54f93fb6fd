// Steps: what they set aside, and how they end.
#include <algorithm>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"
#include "server/cache/sequence_cache.h"

namespace tessera {
namespace {

// Device pages that the step's sequences have and will keep, each once however many of them share it. Where they cannot
// be more than `enough`, an upper bound, for which no page is looked at: whoever finds the cache full comes by here.
int64_t PagesKept(const StepState& step, int64_t device_pages, int64_t enough) {
  std::vector<const Sequence*> sequences;
  sequences.reserve(step.uses.size());
  for (const StepState::Use& use : step.uses) sequences.push_back(use.sequence);
  std::sort(sequences.begin(), sequences.end());
  sequences.erase(std::unique(sequences.begin(), sequences.end()), sequences.end());
  const auto table_of = [&step](const Sequence* sequence) -> const std::vector<PageRef>& {
    return sequence->changing == &step ? step.changes[sequence->change].table : sequence->table;
  };
  int64_t at_most = 0;
  for (const Sequence* sequence : sequences) at_most += static_cast<int64_t>(table_of(sequence).size());
  if (at_most <= enough) return at_most;
  std::vector<bool> counted(static_cast<size_t>(device_pages));
  int64_t kept = 0;
  for (const Sequence* sequence : sequences) {
    for (const PageRef page : table_of(sequence)) {
      if (!page.exists() || counted[static_cast<size_t>(page.number())]) continue;
      counted[static_cast<size_t>(page.number())] = true;
      ++kept;
    }
  }
  return kept;
}

}  // namespace

CacheStep::~CacheStep() {
  if (state_ != nullptr) cache_->FinishStep(*state_, /*commit=*/false);
}

void CacheStep::Commit() {
  cache_->FinishStep(*state_, /*commit=*/true);
  state_.reset();
}

absl::StatusOr<CacheStep> SequenceCache::Reserve(absl::string_view tenant, absl::Span<const StepEntry> entries,
                                                 int64_t* missing) {
  if (missing != nullptr) *missing = 0;
  auto step = std::make_unique<StepState>();
  step->uses.reserve(entries.size());
  absl::MutexLock lock(&mutex_);
  const absl::Time now = clock_->Now();
  absl::Status admitted;
  for (const StepEntry& entry : entries) {
    admitted = Admit(tenant, entry, now, *step);
    if (!admitted.ok()) break;
  }
  if (admitted.ok() && !step->changes.empty()) {
    int64_t planned = 0;
    for (const StepState::TableChange& change : step->changes) {
      planned += std::count(change.table.begin(), change.table.end(), PageRef());
    }
    const Tenant& owner = *step->changes.front().sequence->tenant;
    admitted = CheckPages(owner, planned, missing);
    if (!admitted.ok()) {
      const int64_t most = std::min(owner.quota.device_pages, device_.total());
      if (const int64_t together = PagesKept(*step, device_.total(), most - planned) + planned; together > most) {
        if (missing != nullptr) *missing = 0;  // nobody's pages would help
        admitted = absl::InvalidArgumentError(absl::StrCat("the call's sequences take ", together,
                                                           " pages of the cache, of ", most, " that are possible"));
      }
    } else {
      admitted = CheckTables(owner, /*more=*/0);  // PlanPages has counted
    }
  }
  if (!admitted.ok()) {
    Finish(*step, /*commit=*/false);
    return admitted;
  }
  TakePlanned(*step);
  ListPages(*step);
  steps_.insert(step.get());
  return CacheStep(this, std::move(step));
}

absl::Status SequenceCache::Admit(absl::string_view tenant, const StepEntry& entry, absl::Time now, StepState& step) {
  const absl::StatusOr<Sequence*> found = Find(tenant, entry.sequence, now);
  if (!found.ok()) return found.status();
  Sequence& sequence = **found;
  if (entry.layer < 0 || entry.layer >= options_.layers) {
    return absl::InvalidArgumentError(absl::StrCat("layer must be 0 to ", options_.layers - 1, ", got ", entry.layer));
  }
  const int64_t length = sequence.lengths[entry.layer];
  if (entry.tokens < 0) return absl::InvalidArgumentError(absl::StrCat("tokens must not be negative: ", entry.tokens));
  if (entry.tokens > options_.max_tokens - length) {
    return absl::InvalidArgumentError(absl::StrCat("a sequence has at most ", options_.max_tokens, " tokens: ", length,
                                                   " and ", entry.tokens, " more"));
  }
  if (entry.tokens > 0) {
    if (sequence.writing[entry.layer] == &step) {
      return absl::InvalidArgumentError(absl::StrCat("layer ", entry.layer, " of a sequence is appended to twice"));
    }
    if (sequence.writing[entry.layer] != nullptr) return absl::AbortedError("the layer is being extended");
    if (sequence.changing != nullptr && sequence.changing->spills) {
      return absl::AbortedError("the sequence is being moved");
    }
  }
  if (absl::Status planned = PlanPages(sequence, entry.layer, entry.tokens, step); !planned.ok()) return planned;
  if (entry.tokens > 0) {
    sequence.writing[entry.layer] = &step;
    ++sequence.writers;
  }
  Pin(sequence);
  step.uses.push_back({&sequence, entry.layer, entry.tokens});
  return absl::OkStatus();
}

absl::Status SequenceCache::PlanPages(Sequence& sequence, int32_t layer, int64_t tokens, StepState& step) {
  const int64_t length = sequence.lengths[layer];
  const size_t needed = static_cast<size_t>(PagesFor(length + tokens));
  // The pages that the entry writes and that are there already.
  const size_t first = static_cast<size_t>(length >> page_shift_);
  const size_t last = tokens == 0 ? first : std::min(needed, sequence.table.size());
  const bool ours = sequence.changing == &step;
  const StepState::TableChange* const others =
      sequence.changing == nullptr || ours ? nullptr : &sequence.changing->changes[sequence.change];
  const auto shared = [&](size_t i) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return pool(sequence.table[i]).references(sequence.table[i]) > 1;
  };
  // What is written into a page that another step is about to replace would be lost, also where the page is shared no
  // more.
  const auto leaving = [&](size_t i) { return others != nullptr && others->table[i] != sequence.table[i]; };
  const size_t there = ours ? step.changes[sequence.change].table.size() : sequence.table.size();
  bool change = needed > there || (sequence.host_pages > 0 && !ours);
  for (size_t i = first; i < last && !change; ++i) change = shared(i) || leaving(i);
  if (!change) return absl::OkStatus();

  if (others != nullptr) return absl::AbortedError("the sequence's pages are being changed");
  StepState::TableChange& planned = ours ? step.changes[sequence.change] : AddChange(sequence, step);
  if (sequence.host_pages > 0 && !ours) {
    for (PageRef& page : planned.table) {
      if (page.place() == Place::kHost) page = PageRef();
    }
  }
  for (size_t i = first; i < last; ++i) {
    if (shared(i)) planned.table[i] = PageRef();
  }
  if (needed > there) {
    planned.table.reserve(needed);  // no more than is counted
    planned.table.resize(needed);
    CountTablePages(*sequence.tenant, static_cast<int64_t>(needed - there));
  }
  return absl::OkStatus();
}

absl::Status SequenceCache::CheckPages(const Tenant& tenant, int64_t pages, int64_t* missing) const {
  const int64_t quota = tenant.quota.device_pages;
  if (tenant.pages_at(Place::kDevice) > quota - pages) {
    return absl::ResourceExhaustedError(absl::StrCat("the quota of ", quota, " pages of the cache is used up"));
  }
  if (pages > device_.free()) {
    if (missing != nullptr) *missing = pages - device_.free();
    return absl::ResourceExhaustedError("the cache has too few free pages");
  }
  return absl::OkStatus();
}

StepState::TableChange& SequenceCache::AddChange(Sequence& sequence, StepState& step) {
  ABSL_RAW_CHECK(sequence.changing == nullptr, "one step at a time changes a table");
  sequence.changing = &step;
  sequence.change = step.changes.size();
  return step.changes.emplace_back(StepState::TableChange{&sequence, sequence.table});
}

PageRef SequenceCache::TakePage(Place place, Sequence& sequence, StepState& step) {
  const PagePool::Taken taken = pool(place).Take(*sequence.tenant);
  if (taken.scrub) step.scrubs.push_back(taken.page);
  return taken.page;
}

PageCopy SequenceCache::CopyOf(const Sequence& sequence, size_t index, PageRef to) const {
  const int64_t first_token = static_cast<int64_t>(index) << page_shift_;
  return {sequence.table[index], to, std::min(options_.page_tokens, sequence.longest() - first_token)};
}

void SequenceCache::TakePlanned(StepState& step) {
  for (StepState::TableChange& change : step.changes) {
    for (size_t i = 0; i < change.table.size(); ++i) {
      if (change.table[i].exists()) continue;
      change.table[i] = TakePage(Place::kDevice, *change.sequence, step);
      if (i < change.sequence->table.size()) step.copies.push_back(CopyOf(*change.sequence, i, change.table[i]));
    }
  }
}

void SequenceCache::ListPages(StepState& step) {
  const auto pages_of = [this](const StepState::Use& use) {
    return static_cast<size_t>(PagesFor(use.sequence->lengths[use.layer] + use.tokens));
  };
  // A sequence has one list, as long as the longest of its layers that are named.
  size_t total = 0;
  for (const StepState::Use& use : step.uses) {
    const size_t pages = pages_of(use);
    if (pages <= use.sequence->listed_pages) continue;
    total += pages - use.sequence->listed_pages;
    use.sequence->listed_pages = pages;
  }
  step.page_numbers.resize(total);
  size_t next = 0;
  step.ranges.reserve(step.uses.size());
  for (const StepState::Use& use : step.uses) {
    Sequence& sequence = *use.sequence;
    if (sequence.listed_pages > 0) {  // its first entry with pages
      const std::vector<PageRef>& table =
          sequence.changing == &step ? step.changes[sequence.change].table : sequence.table;
      const size_t listed = std::exchange(sequence.listed_pages, 0);
      sequence.list_begin = std::exchange(next, next + listed);
      std::transform(table.begin(), table.begin() + listed, step.page_numbers.begin() + sequence.list_begin,
                     [](PageRef page) { return page.number(); });
    }
    const int64_t before = sequence.lengths[use.layer];
    const size_t pages = pages_of(use);
    step.ranges.push_back({before, before + use.tokens, pages == 0 ? 0 : sequence.list_begin, pages});
  }
}

void SequenceCache::Pin(Sequence& sequence) {
  if (sequence.pins++ == 0) idle_.Remove(sequence);
}

void SequenceCache::Unpin(Sequence& sequence, absl::Time now) {
  if (--sequence.pins > 0) return;
  if (!sequence.released) {
    sequence.last_use = now;
    idle_.Append(sequence);
  }
  if (!sequence.in_use()) Settle(sequence);
}

void SequenceCache::FinishStep(StepState& step, bool commit) {
  absl::MutexLock lock(&mutex_);
  steps_.erase(&step);
  Finish(step, commit);
}

void SequenceCache::Finish(StepState& step, bool commit) {
  const absl::Time now = clock_->Now();
  for (StepState::TableChange& change : step.changes) FinishChange(change, commit);
  for (const StepState::Use& use : step.uses) {
    if (use.tokens > 0) {
      use.sequence->writing[use.layer] = nullptr;
      --use.sequence->writers;
      if (commit && !use.sequence->released) use.sequence->lengths[use.layer] += use.tokens;
    }
    Unpin(*use.sequence, now);
  }
}

void SequenceCache::FinishChange(StepState::TableChange& change, bool commit) {
  Sequence& sequence = *change.sequence;
  const bool keep = commit && !sequence.released;
  for (size_t i = 0; i < change.table.size(); ++i) {
    const bool replaces = i < sequence.table.size();
    const PageRef page = change.table[i];
    if (!page.exists() || (replaces && page == sequence.table[i])) continue;
    if (commit) {
      pool(page).MarkScrubbed(page, *sequence.tenant);
      if (replaces && page.place() != sequence.table[i].place()) {
        ++(page.place() == Place::kHost ? pages_to_host_ : pages_from_host_);
      }
    }
    if (!keep) {
      DropPage(page, sequence);
      continue;
    }
    if (page.place() == Place::kHost) ++sequence.host_pages;
    if (replaces) {
      if (sequence.table[i].place() == Place::kHost) --sequence.host_pages;
      sequence.outlived.push_back(sequence.table[i]);
    }
  }
  if (keep) {
    sequence.table.swap(change.table);
  } else {
    CountTablePages(*sequence.tenant, -static_cast<int64_t>(change.table.size() - sequence.table.size()));
  }
  sequence.changing = nullptr;
  if (!sequence.in_use()) Settle(sequence);
}

}  // namespace tessera
