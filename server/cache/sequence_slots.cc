#include "server/cache/sequence_slots.h"

#include "absl/base/internal/raw_logging.h"

namespace tessera {

Sequence& SequenceSlots::Open(Tenant& tenant) {
  if (free_.empty()) {
    Sequence& added = slots_.emplace_back();
    added.slot = static_cast<uint32_t>(slots_.size() - 1);
    free_.push_back(added.slot);
  }
  Sequence& sequence = slots_[free_.back()];
  free_.pop_back();
  ++sequence.generation;
  sequence.secret = secrets_.Draw();
  sequence.tenant = &tenant;
  sequence.lengths.assign(layers_, 0);
  sequence.writing.assign(layers_, nullptr);
  sequence.released = false;
  return sequence;
}

void SequenceSlots::Close(Sequence& sequence) {
  ABSL_RAW_CHECK(sequence.table.empty() && sequence.outlived.empty() && sequence.pins == 0, "closed while in use");
  sequence.tenant = nullptr;
  // A long sequence's table is not kept for whoever comes next.
  std::vector<PageRef>().swap(sequence.table);
  std::vector<PageRef>().swap(sequence.outlived);
  free_.push_back(sequence.slot);
}

Sequence* SequenceSlots::Find(absl::string_view tenant, const SequenceHandle& handle) {
  if (handle.epoch != epoch_ || handle.slot >= slots_.size()) return nullptr;
  Sequence& sequence = slots_[handle.slot];
  const bool ours = sequence.tenant != nullptr && !sequence.released && sequence.generation == handle.generation &&
                    sequence.secret == handle.secret && sequence.tenant->name == tenant;
  return ours ? &sequence : nullptr;
}

}  // namespace tessera
