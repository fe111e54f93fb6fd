// Pages of idle sequences to the host. They come back with the next step that uses the sequence: see PlanPages.
#include <algorithm>
#include <utility>

#include "server/cache/sequence_cache.h"

namespace tessera {

std::optional<CacheStep> SequenceCache::Spill(int64_t pages) {
  auto step = std::make_unique<StepState>();
  step->spills = true;
  absl::MutexLock lock(&mutex_);
  int64_t moved = 0;
  for (Sequence* sequence = idle_.front(); sequence != nullptr && moved < pages && host_.free() > 0;
       sequence = idle_.After(*sequence)) {
    if (sequence->changing == nullptr) moved += SpillSequence(*sequence, pages - moved, *step);
  }
  if (moved == 0) return std::nullopt;
  steps_.insert(step.get());
  return CacheStep(this, std::move(step));
}

int64_t SequenceCache::SpillSequence(Sequence& sequence, int64_t pages, StepState& step) {
  const Tenant& tenant = *sequence.tenant;
  const int64_t room = std::min({pages, host_.free(), tenant.quota.host_pages - tenant.pages_at(Place::kHost)});
  StepState::TableChange* change = nullptr;
  int64_t moved = 0;
  for (size_t i = 0; i < sequence.table.size() && moved < room; ++i) {
    const PageRef page = sequence.table[i];
    if (page.place() == Place::kHost || device_.references(page) > 1) continue;
    if (change == nullptr) change = &AddChange(sequence, step);
    change->table[i] = TakePage(Place::kHost, sequence, step);
    step.copies.push_back(CopyOf(sequence, i, change->table[i]));
    ++moved;
  }
  return moved;
}

}  // namespace tessera
