// One resident sequence: its pages, its lengths, and what is being done to it.
#ifndef TESSERA_SERVER_CACHE_SEQUENCE_H_
#define TESSERA_SERVER_CACHE_SEQUENCE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "server/cache/page.h"
#include "server/cache/tenant_ledger.h"

namespace tessera {

struct StepState;

struct Sequence {
  uint32_t slot = 0;
  uint32_t generation = 0;
  uint64_t secret = 0;
  Tenant* tenant = nullptr;  // null while the slot is free

  std::vector<int64_t> lengths;  // [layers], tokens
  // Page i holds tokens i * page_tokens and up. As many as the longest layer needs.
  std::vector<PageRef> table;
  int64_t host_pages = 0;  // of the table

  // Of the steps under way:
  int32_t pins = 0;                       // their entries that name this sequence
  int32_t writers = 0;                    // those of them that append
  std::vector<const StepState*> writing;  // [layers]: the step that appends to the layer, or null
  const StepState* changing = nullptr;    // the step that will change the table, or null
  size_t change = 0;                      // which of that step's changes it is
  size_t listed_pages = 0;                // ListPages' own, as is where they begin
  size_t list_begin = 0;
  std::vector<PageRef> outlived;  // out of the table, but perhaps still read: dropped when no step is left
  bool released = false;          // no handle leads here any more; lives on until no step is left

  absl::Time last_use = absl::InfinitePast();
  Sequence* idle_before = nullptr;  // neighbours in the idle list
  Sequence* idle_after = nullptr;

  bool in_use() const { return pins > 0 || changing != nullptr; }
  int64_t longest() const { return *std::max_element(lengths.begin(), lengths.end()); }
};

// Live sequences without a pin, the one that has been idle longest first. Not thread-safe; owns nothing.
class IdleList {
 public:
  IdleList() { ends_.idle_before = ends_.idle_after = &ends_; }
  IdleList(const IdleList&) = delete;
  IdleList& operator=(const IdleList&) = delete;

  // REQUIRES: not in the list.
  void Append(Sequence& sequence) {
    sequence.idle_before = ends_.idle_before;
    sequence.idle_after = &ends_;
    ends_.idle_before->idle_after = &sequence;
    ends_.idle_before = &sequence;
  }
  // REQUIRES: in the list.
  void Remove(Sequence& sequence) {
    sequence.idle_before->idle_after = sequence.idle_after;
    sequence.idle_after->idle_before = sequence.idle_before;
    sequence.idle_before = sequence.idle_after = nullptr;
  }

  // Null where there is none, as does After.
  Sequence* front() { return After(ends_); }
  Sequence* After(Sequence& sequence) { return sequence.idle_after == &ends_ ? nullptr : sequence.idle_after; }
  const Sequence* front() const { return ends_.idle_after == &ends_ ? nullptr : ends_.idle_after; }

 private:
  Sequence ends_;  // closes the ring
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CACHE_SEQUENCE_H_
