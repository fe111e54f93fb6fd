// A warp's end of a tile: normalise, round and store 16 rows of O and their LSE.
#ifndef TESSERA_KERNELS_CUDA_SM80_EPILOGUE_H_
#define TESSERA_KERNELS_CUDA_SM80_EPILOGUE_H_

#include <cstdint>

#include "kernels/cuda/row_repair.h"
#include "kernels/cuda/sm80/row_tile.h"
#include "kernels/cuda/tile/fragment.h"

namespace tessera::cuda::sm80 {

// Stores rows `row` and `row` + 8 of the tile; o is divided in place. The lanes of a quad transpose their words so that
// each stores 16 bytes, 64 adjacent ones a row. Returns bits 0 and 1 where the row exists and its output is not finite.
template <typename Element, int kOutputs>
__device__ __forceinline__ uint32_t StoreRows(const ForwardLaunch& launch, const RowTile& tile, int row,
                                              float (&o)[kOutputs], const float (&inverse)[2], const float (&lse)[2]) {
  static_assert(kOutputs % 16 == 0, "whole groups of 32 columns");
  const SequenceShape& shape = tile.shape();
  const int t = threadIdx.x % 4;
  uint32_t broken = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const RowPlace place = tile.Place(row + 8 * i);
    Element* o_row =
        static_cast<Element*>(shape.o) + place.token * shape.o_strides.token + place.q_head * shape.o_strides.head;
    float probe = 0.0f;  // NaN unless all outputs are finite
#pragma unroll
    for (int group = 0; group < kOutputs / 16; ++group) {
      uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float* pair = &o[16 * group + 4 * j + 2 * i];
        pair[0] *= inverse[i];
        pair[1] *= inverse[i];
        probe += 0.0f * pair[0] + 0.0f * pair[1];
        words[j] = tile::Pack<Element>(pair[0], pair[1]);
      }
      tile::QuadTranspose(words, t);
      const int32_t column = 32 * group + 8 * t;
      if (place.exists && column < launch.head_dim) {
        *reinterpret_cast<uint4*>(o_row + column) = {words[0], words[1], words[2], words[3]};
      }
    }
    if (t == 0 && place.exists && shape.lse != nullptr) {
      shape.lse[place.token * shape.lse_strides.token + place.q_head * shape.lse_strides.head] = lse[i];
    }
    if (tile::QuadSum(probe) != 0.0f && place.exists) broken |= 1u << i;
  }
  return broken;
}

// Redoes broken rows after their stores. By the whole warp; lanes where `broken` name their row, one lane a row.
template <typename Element>
__device__ __forceinline__ void RepairRows(const ForwardLaunch& launch, const RowTile& tile, int row, bool broken) {
  __syncwarp();  // the rows' stores come before the repair's
  for (uint32_t lanes = __ballot_sync(0xffffffffu, broken); lanes != 0; lanes &= lanes - 1) {
    const int broken_row = __shfl_sync(0xffffffffu, row, __ffs(lanes) - 1);
    const RowPlace place = tile.Place(broken_row);
    RepairRow<Element>(*tile.entry, place.token, place.q_head, tile.kv_head(), launch.head_dim, launch.score_map,
                       tile.VisibleTo(launch, broken_row));
  }
}

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_EPILOGUE_H_
