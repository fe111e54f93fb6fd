// One step on the cache: pages set aside for what a device is about to do.
//
// The cache never touches memory. A step tells the engine what to do to it, in this order: clear scrubs(), do copies(),
// append the new rows of each entry to its pages, attend. Nothing of that is visible to others before Commit.
#ifndef TESSERA_SERVER_CACHE_CACHE_STEP_H_
#define TESSERA_SERVER_CACHE_CACHE_STEP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "server/cache/page.h"
#include "server/cache/sequence.h"
#include "server/cache/sequence_handle.h"

namespace tessera {

class SequenceCache;

// What is to be done to one layer of one sequence.
struct StepEntry {
  SequenceHandle sequence;
  int32_t layer = 0;
  int64_t tokens = 0;  // to append; 0: the step only reads
};

// Where an entry's rows are.
struct EntryPages {
  int64_t length_before = 0;        // tokens of the layer before the step; new ones go to length_before and up
  int64_t length = 0;               // with the step's own
  absl::Span<const int32_t> pages;  // device pages: number i holds tokens i * page_tokens and up; covers `length`
};

// Rows 0 .. tokens - 1 of a page, in all layers, to another page of any place.
struct PageCopy {
  PageRef from;
  PageRef to;
  int64_t tokens = 0;
};

// What SequenceCache keeps of a step under way. For its own files.
struct StepState {
  struct Use {
    Sequence* sequence;
    int32_t layer;
    int64_t tokens;
  };
  // A sequence's table as it will be; pages that differ from the present one, or go beyond it, are the step's own.
  struct TableChange {
    Sequence* sequence;
    std::vector<PageRef> table;
  };
  struct Range {
    int64_t length_before;
    int64_t length;
    size_t first_page;
    size_t pages;
  };

  bool spills = false;  // moves pages to the host; none may be written meanwhile
  std::vector<Use> uses;
  std::vector<TableChange> changes;
  std::vector<Range> ranges;          // by entry
  std::vector<int32_t> page_numbers;  // of all sequences, one after the other: entries of one sequence share a list
  std::vector<PageRef> scrubs;
  std::vector<PageCopy> copies;
};

// Owned by one thread at a time. Ends by Commit or, without it, is rolled back when it is destroyed: lengths and pages
// are then as if it had never been. REQUIRES, of both: the device does nothing with the step's pages any more. The
// cache outlives its steps.
class CacheStep {
 public:
  CacheStep(CacheStep&&) = default;
  CacheStep& operator=(CacheStep&&) = delete;
  ~CacheStep();

  size_t size() const { return state_->ranges.size(); }
  // Good as long as the step.
  EntryPages entry(size_t i) const {
    const StepState::Range& range = state_->ranges[i];
    return {range.length_before, range.length,
            absl::MakeConstSpan(state_->page_numbers).subspan(range.first_page, range.pages)};
  }
  // Pages that may hold rows of another tenant: to be cleared before anything else is done with them.
  absl::Span<const PageRef> scrubs() const { return state_->scrubs; }
  // Pages that are shared and about to be written, or that are moved between host and device.
  absl::Span<const PageCopy> copies() const { return state_->copies; }

  // All of the above has been done. Sequences that have been released meanwhile stay released. REQUIRES: not committed
  // yet; nothing but the destructor is called afterwards.
  void Commit();

 private:
  friend class SequenceCache;
  CacheStep(SequenceCache* cache, std::unique_ptr<StepState> state) : cache_(cache), state_(std::move(state)) {}

  SequenceCache* cache_;
  std::unique_ptr<StepState> state_;  // null once the step is over
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CACHE_CACHE_STEP_H_
