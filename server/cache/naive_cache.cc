#include "server/cache/naive_cache.h"

#include <algorithm>
#include <set>

namespace tessera {

using absl::StatusCode;

int64_t NaiveSequence::longest() const {
  size_t longest = 0;
  for (const auto& of_layer : rows) longest = std::max(longest, of_layer.size());
  return static_cast<int64_t>(longest);
}

bool NaiveCache::Live(size_t tenant, const NaiveSequencePtr& sequence, absl::Time now) const {
  if (sequence->released || sequence->tenant != tenant) return false;
  return sequence->pins > 0 || now < sequence->last_use + limits_.lease;
}

StatusCode NaiveCache::Room(size_t tenant, int64_t count) const {
  if (count > std::min(limits_.tenant_sequences, limits_.max_sequences)) return StatusCode::kInvalidArgument;
  const bool fits =
      sequences_of_[tenant] + count <= limits_.tenant_sequences && sequences() + count <= limits_.max_sequences;
  return fits ? StatusCode::kOk : StatusCode::kResourceExhausted;
}

NaiveSequencePtr NaiveCache::Open(size_t tenant, absl::Time now) {
  auto sequence = std::make_shared<NaiveSequence>();
  sequence->tenant = tenant;
  sequence->rows.resize(limits_.layers);
  sequence->writing.resize(limits_.layers);
  Use(*sequence, now);
  all_.push_back(sequence);
  ++sequences_of_[tenant];
  return sequence;
}

void NaiveCache::Use(NaiveSequence& sequence, absl::Time now) {
  if (sequence.pins > 0) return;
  sequence.last_use = now;
  sequence.order = ++uses_;
}

StatusCode NaiveCache::Create(size_t tenant, int64_t count, absl::Time now, std::vector<NaiveSequencePtr>* created) {
  if (count < 1) return StatusCode::kInvalidArgument;
  if (const StatusCode room = Room(tenant, count); room != StatusCode::kOk) return room;
  for (int64_t i = 0; i < count; ++i) created->push_back(Open(tenant, now));
  return StatusCode::kOk;
}

StatusCode NaiveCache::Fork(size_t tenant, const NaiveSequencePtr& source, std::optional<int64_t> length,
                            absl::Time now, NaiveSequencePtr* fork) {
  if (!Live(tenant, source, now)) return StatusCode::kNotFound;
  Use(*source, now);
  if (source->writers > 0) return StatusCode::kAborted;
  const int64_t kept = length.value_or(source->longest());
  if (kept < 0 || kept > source->longest()) return StatusCode::kInvalidArgument;
  if (const StatusCode room = Room(tenant, 1); room != StatusCode::kOk) return room;
  *fork = Open(tenant, now);
  (*fork)->rows = source->rows;
  for (auto& rows : (*fork)->rows) rows.resize(std::min<size_t>(rows.size(), kept));
  (*fork)->pages.assign(source->pages.begin(), source->pages.begin() + PagesFor(kept));
  return StatusCode::kOk;
}

StatusCode NaiveCache::Truncate(size_t tenant, const NaiveSequencePtr& sequence, int64_t length, absl::Time now) {
  if (!Live(tenant, sequence, now)) return StatusCode::kNotFound;
  Use(*sequence, now);
  if (sequence->in_use()) return StatusCode::kAborted;
  if (length < 0 || length > sequence->longest()) return StatusCode::kInvalidArgument;
  for (auto& rows : sequence->rows) rows.resize(std::min<size_t>(rows.size(), length));
  sequence->pages.resize(PagesFor(length));
  return StatusCode::kOk;
}

StatusCode NaiveCache::Get(size_t tenant, const NaiveSequencePtr& sequence, absl::Time now) {
  if (!Live(tenant, sequence, now)) return StatusCode::kNotFound;
  Use(*sequence, now);
  return StatusCode::kOk;
}

StatusCode NaiveCache::Release(size_t tenant, const NaiveSequencePtr& sequence, absl::Time now) {
  if (!Live(tenant, sequence, now)) return StatusCode::kNotFound;
  End(sequence);
  return StatusCode::kOk;
}

int64_t NaiveCache::Expire(int64_t most, absl::Time now) {
  int64_t ended = 0;
  for (const NaiveSequencePtr& sequence : IdleByLastUse()) {
    if (ended == most || now < sequence->last_use + limits_.lease) break;
    End(sequence);
    ++ended;
  }
  return ended;
}

void NaiveCache::End(const NaiveSequencePtr& sequence) {
  sequence->released = true;
  Settle(sequence);
}

void NaiveCache::Settle(const NaiveSequencePtr& sequence) {
  if (sequence->in_use()) return;
  sequence->outlived.clear();
  if (!sequence->released) return;
  sequence->pages.clear();
  --sequences_of_[sequence->tenant];
  all_.erase(std::find(all_.begin(), all_.end(), sequence));
}

std::vector<NaiveSequencePtr> NaiveCache::IdleByLastUse() const {
  std::vector<NaiveSequencePtr> idle;
  for (const NaiveSequencePtr& sequence : all_) {
    if (!sequence->released && sequence->pins == 0) idle.push_back(sequence);
  }
  std::sort(idle.begin(), idle.end(), [](const auto& a, const auto& b) { return a->order < b->order; });
  return idle;
}

StatusCode NaiveCache::Reserve(size_t tenant, const std::vector<NaiveEntry>& entries, absl::Time now,
                               NaiveStepPtr* step, int64_t* missing) {
  auto reserved = std::make_unique<NaiveStep>();
  StatusCode code = StatusCode::kOk;
  for (const NaiveEntry& entry : entries) {
    code = Admit(tenant, entry, now, *reserved);
    if (code != StatusCode::kOk) break;
  }
  int64_t wanted = 0;
  for (const auto& [sequence, fresh] : reserved->fresh) wanted += static_cast<int64_t>(fresh.size());
  *missing = 0;
  if (code == StatusCode::kOk && wanted > 0) {
    const int64_t free = limits_.pages[0] - used(Place::kDevice);
    const bool beyond_quota = used_[tenant][0] + wanted > limits_.tenant_pages[0];
    if (beyond_quota || wanted > free) {
      code = Kept(*reserved) + wanted > std::min(limits_.pages[0], limits_.tenant_pages[0])
                 ? StatusCode::kInvalidArgument
                 : StatusCode::kResourceExhausted;
      if (code == StatusCode::kResourceExhausted && !beyond_quota) *missing = wanted - free;
    }
  }
  if (code != StatusCode::kOk) {
    End(std::move(reserved), /*commit=*/false, now);
    return code;
  }
  for (auto& [sequence, fresh] : reserved->fresh) {
    for (auto& [index, page] : fresh) page = std::make_shared<NaivePage>(Place::kDevice, used_[tenant]);
  }
  *step = std::move(reserved);
  return StatusCode::kOk;
}

int64_t NaiveCache::Kept(const NaiveStep& step) const {
  std::set<const NaivePage*> kept;
  for (const NaiveEntry& use : step.uses) {
    const auto fresh = step.fresh.find(use.sequence);
    for (size_t i = 0; i < use.sequence->pages.size(); ++i) {
      if (fresh == step.fresh.end() || fresh->second.count(i) == 0) kept.insert(use.sequence->pages[i].get());
    }
  }
  return static_cast<int64_t>(kept.size());
}

StatusCode NaiveCache::Admit(size_t tenant, const NaiveEntry& entry, absl::Time now, NaiveStep& step) {
  NaiveSequence& sequence = *entry.sequence;
  if (!Live(tenant, entry.sequence, now)) return StatusCode::kNotFound;
  if (entry.layer < 0 || entry.layer >= limits_.layers) return StatusCode::kInvalidArgument;
  const int64_t before = static_cast<int64_t>(sequence.rows[entry.layer].size());
  const int64_t after = before + static_cast<int64_t>(entry.rows.size());
  if (after > limits_.max_tokens) return StatusCode::kInvalidArgument;
  const bool writes = after > before;
  if (writes) {
    if (sequence.writing[entry.layer] == &step) return StatusCode::kInvalidArgument;
    if (sequence.writing[entry.layer] != nullptr) return StatusCode::kAborted;
    if (sequence.changing != nullptr && sequence.changing->spills) return StatusCode::kAborted;
  }
  if (writes && sequence.changing != nullptr && sequence.changing != &step) {
    for (const auto& [index, page] : sequence.changing->fresh.at(entry.sequence)) {
      const int64_t i = static_cast<int64_t>(index);
      if (i >= before / limits_.page_tokens && i < PagesFor(after)) return StatusCode::kAborted;
    }
  }
  // Pages to replace or add, by their place in the table.
  std::vector<size_t> fresh;
  const auto known = step.fresh.find(entry.sequence);
  const int64_t pages = static_cast<int64_t>(sequence.pages.size());
  for (int64_t i = 0; i < std::max(pages, PagesFor(after)); ++i) {
    if (known != step.fresh.end() && known->second.count(i) > 0) continue;
    const bool written = writes && i >= before / limits_.page_tokens && i < PagesFor(after);
    if (i >= pages || sequence.pages[i]->on_host() || (written && sequence.pages[i].use_count() > 1)) {
      fresh.push_back(i);
    }
  }
  if (!fresh.empty()) {
    if (sequence.changing != nullptr && sequence.changing != &step) return StatusCode::kAborted;
    sequence.changing = &step;
    for (size_t i : fresh) step.fresh[entry.sequence][i] = nullptr;
  }
  if (writes) {
    sequence.writing[entry.layer] = &step;
    ++sequence.writers;
  }
  ++sequence.pins;
  step.uses.push_back(entry);
  return StatusCode::kOk;
}

NaiveStepPtr NaiveCache::Spill(int64_t pages) {
  auto step = std::make_unique<NaiveStep>();
  step->spills = true;
  int64_t moved = 0;
  for (const NaiveSequencePtr& sequence : IdleByLastUse()) {
    if (sequence->changing != nullptr) continue;
    for (size_t i = 0; i < sequence->pages.size(); ++i) {
      const bool room = moved < pages && used(Place::kHost) < limits_.pages[1] &&
                        used_[sequence->tenant][1] < limits_.tenant_pages[1];
      if (!room || sequence->pages[i]->on_host() || sequence->pages[i].use_count() > 1) continue;
      step->fresh[sequence][i] = std::make_shared<NaivePage>(Place::kHost, used_[sequence->tenant]);
      ++moved;
    }
    if (step->fresh.count(sequence) > 0) sequence->changing = step.get();
  }
  return moved > 0 ? std::move(step) : nullptr;
}

void NaiveCache::End(NaiveStepPtr step, bool commit, absl::Time now) {
  for (auto& [sequence, fresh] : step->fresh) {
    if (commit && !sequence->released) {
      for (auto& [index, page] : fresh) {
        if (index >= sequence->pages.size()) sequence->pages.resize(index + 1);
        if (sequence->pages[index] != nullptr) sequence->outlived.push_back(sequence->pages[index]);
        sequence->pages[index] = page;
      }
    }
    sequence->changing = nullptr;
    fresh.clear();
    Settle(sequence);
  }
  for (NaiveEntry& use : step->uses) {
    NaiveSequence& sequence = *use.sequence;
    if (!use.rows.empty()) {
      sequence.writing[use.layer] = nullptr;
      --sequence.writers;
      auto& rows = sequence.rows[use.layer];
      if (commit && !sequence.released) rows.insert(rows.end(), use.rows.begin(), use.rows.end());
    }
    if (--sequence.pins == 0) {
      if (!sequence.released) Use(sequence, now);
      Settle(use.sequence);
    }
  }
}

int64_t NaiveCache::used(Place place) const {
  int64_t pages = 0;
  for (const PlaceCounts& of_tenant : used_) pages += of_tenant[static_cast<size_t>(place)];
  return pages;
}

}  // namespace tessera
