// Tiles of sequences that are not aligned (alignment.h): each row by one warp, element by element. Slow, for any
// strides.
#ifndef TESSERA_KERNELS_CUDA_SM80_ROW_BY_ROW_H_
#define TESSERA_KERNELS_CUDA_SM80_ROW_BY_ROW_H_

#include <cstdint>

#include "kernels/cuda/row_repair.h"
#include "kernels/cuda/sm80/row_tile.h"

namespace tessera::cuda::sm80 {

// By the whole block.
template <typename Element, int kTileRows>
__device__ __forceinline__ void ComputeRowByRow(const ForwardLaunch& launch, const RowTile& tile) {
  const SequenceShape& shape = tile.shape();
  for (int row = threadIdx.x / 32; row < kTileRows; row += blockDim.x / 32) {
    const RowPlace place = tile.Place(row);
    if (!place.exists) continue;
    const float lse = RepairRow<Element>(*tile.entry, place.token, place.q_head, tile.kv_head(), launch.head_dim,
                                         launch.score_map, tile.VisibleTo(launch, row));
    if (threadIdx.x % 32 == 0 && shape.lse != nullptr) {
      shape.lse[place.token * shape.lse_strides.token + place.q_head * shape.lse_strides.head] = lse;
    }
  }
}

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_ROW_BY_ROW_H_
