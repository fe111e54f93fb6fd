// A paged batch as a list of work for threads, and what that work comes to.
#ifndef TESSERA_KERNELS_CPU_PAGED_PLAN_H_
#define TESSERA_KERNELS_CPU_PAGED_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/block_forward.h"
#include "kernels/mask.h"
#include "kernels/paged_attention.h"

namespace tessera {

// How a sequence is cut depends on nothing but its own lengths and the parameters: at most kMaxSplitRows stacked rows
// by keys, into splits of SplitKeys(kv_len, kv_heads); more of them by rows, into blocks.
class PagedPlan {
 public:
  // A block of rows against all keys or, where partial >= 0, all rows of a key head against the keys of one split.
  struct Item {
    double cost = 0;
    int64_t sequence = 0;
    RowBlock block;
    KeyRange split;
    int64_t partial = -1;  // floats from the beginning of the partial results to this one
  };
  // The splits of one key head: `splits` partial results, one after the other.
  struct Head {
    int64_t sequence = 0;
    int64_t kv_head = 0;
    int64_t rows = 0;
    int64_t splits = 0;
    int64_t partial = 0;
  };

  // REQUIRES: a batch that ValidatePagedBatch accepts.
  PagedPlan(const PagedParams& params, absl::Span<const PagedSequence> sequences);

  // Dearest first.
  const std::vector<Item>& items() const { return items_; }
  const std::vector<Head>& heads() const { return heads_; }
  // Of all partial results.
  int64_t partial_floats() const { return partial_floats_; }
  const ForwardStats& stats() const { return stats_; }

 private:
  void AddSplits(const PagedParams& params, int64_t index, const PagedSequence& sequence);

  std::vector<Item> items_;
  std::vector<Head> heads_;
  int64_t partial_floats_ = 0;
  ForwardStats stats_;
};

}  // namespace tessera

#endif  // TESSERA_KERNELS_CPU_PAGED_PLAN_H_
