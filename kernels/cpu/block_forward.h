// The tiled forward of one block of rows, on the best SIMD target of this machine.
#ifndef TESSERA_KERNELS_CPU_BLOCK_FORWARD_H_
#define TESSERA_KERNELS_CPU_BLOCK_FORWARD_H_

#include <cstdint>
#include <stop_token>

#include "kernels/attention.h"
#include "kernels/cpu/scratch.h"

namespace tessera {

// Rows first_row .. first_row + rows - 1 of the stacked rows of one key head (see tile_shape.h).
struct RowBlock {
  int64_t kv_head = 0;
  int64_t first_row = 0;
  int64_t rows = 0;  // 1 to BlockRows(head_dim)
};

// Writes o, and lse where it is wanted, of the block's rows. Touches nothing else but `scratch`. Once `stop` is
// requested it leaves off, with outputs unwritten, after at most one tile of keys.
// REQUIRES: arguments that ValidateParams and ValidateSequence accept; first_row is a multiple of BlockRows(head_dim).
void ForwardBlock(const AttentionParams& params, const SequenceView& sequence, const RowBlock& block, Scratch& scratch,
                  const std::stop_token& stop);

}  // namespace tessera

#endif  // TESSERA_KERNELS_CPU_BLOCK_FORWARD_H_
