// The pieces of work that paged attention is made of, on the best SIMD target of this machine.
#ifndef TESSERA_KERNELS_CPU_PAGED_BLOCKS_H_
#define TESSERA_KERNELS_CPU_PAGED_BLOCKS_H_

#include <cstdint>
#include <stop_token>

#include "absl/types/span.h"
#include "kernels/cpu/block_forward.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/split_partial.h"
#include "kernels/mask.h"
#include "kernels/paged_attention.h"

namespace tessera {

// All of them REQUIRE arguments that ValidatePagedBatch accepts, and touch nothing but their outputs and `scratch`.

// Many rows: the tiled forward of one block of them over the pages. Writes o, and lse where it is wanted; once `stop`
// is requested it returns within milliseconds, having written less.
void ForwardPagedBlock(const PagedParams& params, const PagedSequence& sequence, const RowBlock& block,
                       Scratch& scratch, const std::stop_token& stop);

// Few rows: all rows of one key head against the keys of one split. REQUIRES, as for the next one: 1 to kMaxSplitRows
// stacked rows.
void ForwardSplit(const PagedParams& params, const PagedSequence& sequence, int64_t kv_head, const KeyRange& split,
                  const SplitPartial& partial, Scratch& scratch);

// Writes o, and lse where it is wanted, from the partial results of all splits, in their order.
void CombineSplits(const PagedParams& params, const PagedSequence& sequence, int64_t kv_head,
                   absl::Span<const SplitPartial> partials, Scratch& scratch);

}  // namespace tessera

#endif  // TESSERA_KERNELS_CPU_PAGED_BLOCKS_H_
