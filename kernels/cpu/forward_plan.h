// A batch as a list of work for threads, largest first, and what that work comes to.
#ifndef TESSERA_KERNELS_CPU_FORWARD_PLAN_H_
#define TESSERA_KERNELS_CPU_FORWARD_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/attention.h"
#include "kernels/cpu/block_forward.h"

namespace tessera {

// Work is numbered 0 .. size() - 1 in descending order of cost. All key heads of a block of rows cost the same and are
// numbered one after the other.
class ForwardPlan {
 public:
  struct Item {
    int64_t sequence = 0;
    RowBlock block;
  };

  // REQUIRES: a batch that ValidateBatch accepts.
  ForwardPlan(const AttentionParams& params, absl::Span<const SequenceView> sequences);

  int64_t size() const { return static_cast<int64_t>(blocks_.size()) * kv_heads_; }
  Item operator[](int64_t index) const;
  const ForwardStats& stats() const { return stats_; }

 private:
  struct Block {
    double cost;
    int64_t sequence;
    int64_t first_row;
    int64_t rows;
  };

  int64_t kv_heads_;
  std::vector<Block> blocks_;
  ForwardStats stats_;
};

}  // namespace tessera

#endif  // TESSERA_KERNELS_CPU_FORWARD_PLAN_H_
