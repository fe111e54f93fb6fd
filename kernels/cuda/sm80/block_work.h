// What a thread block works on. The same for all its threads and kept in shared memory, since registers are what these
// kernels lack.
#ifndef TESSERA_KERNELS_CUDA_SM80_BLOCK_WORK_H_
#define TESSERA_KERNELS_CUDA_SM80_BLOCK_WORK_H_

#include <cstdint>

#include "kernels/cuda/forward_table.h"
#include "kernels/cuda/key_range.h"
#include "kernels/cuda/sm80/row_tile.h"

namespace tessera::cuda::sm80 {

// How a key head's rows lie.
struct KeyValueRows {
  int64_t key_stride;  // bytes
  int64_t value_stride;
  int32_t from_last_block;  // rows from the start of the block that is visited last to the sequence's end
};

struct BlockWork {
  RowTile tile;
  KeyBlocks blocks;  // that the tile visits
  KeyValueRows rows;

  // Fills it for tile blockIdx.x. By the whole block.
  template <typename Traits>
  __device__ __forceinline__ void Find(const ForwardLaunch& launch) {
    constexpr int64_t kElementBytes = sizeof(typename Traits::Element);
    if (threadIdx.x < 32) {
      const RowTile found = FindTile(launch, blockIdx.x);
      if (threadIdx.x == 0) {
        tile = found;
        blocks = found.Blocks(launch, Traits::kTileKeys);
        rows = {found.entry->k_strides.token * kElementBytes, found.entry->v_strides.token * kElementBytes,
                found.shape().kv_len - blocks.begin * Traits::kTileKeys};
      }
    }
    __syncthreads();
  }
};

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_BLOCK_WORK_H_
