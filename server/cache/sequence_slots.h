// The places that sequences live in, and the way from a handle to its sequence.
#ifndef TESSERA_SERVER_CACHE_SEQUENCE_SLOTS_H_
#define TESSERA_SERVER_CACHE_SEQUENCE_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/cache/sequence.h"
#include "server/cache/sequence_handle.h"

namespace tessera {

// Not thread-safe. Grows to the most sequences that have been there at once; addresses of sequences stay.
class SequenceSlots {
 public:
  explicit SequenceSlots(int layers) : layers_(layers), epoch_(secrets_.Draw()) {}

  // An empty sequence of `tenant` with a handle that no other has had.
  Sequence& Open(Tenant& tenant);
  // Frees the slot for another. REQUIRES: no pages and no pins are left.
  void Close(Sequence& sequence);

  SequenceHandle HandleOf(const Sequence& sequence) const {
    return {epoch_, sequence.slot, sequence.generation, sequence.secret};
  }
  // The sequence that `handle` was given out for, if it is there, is not released, and belongs to `tenant`; null
  // otherwise.
  Sequence* Find(absl::string_view tenant, const SequenceHandle& handle);

  uint64_t epoch() const { return epoch_; }
  int64_t open() const { return static_cast<int64_t>(slots_.size() - free_.size()); }
  // All slots, free ones among them.
  const std::deque<Sequence>& all() const { return slots_; }

 private:
  const int layers_;
  SecretSource secrets_;
  const uint64_t epoch_;
  std::deque<Sequence> slots_;
  std::vector<uint32_t> free_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CACHE_SEQUENCE_SLOTS_H_
