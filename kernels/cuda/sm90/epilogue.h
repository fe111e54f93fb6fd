// A consumer warp's end of a tile: normalise, round and store 16 rows of O and their LSE.
//
// Where the tile's Q has given up its shared memory, O goes there, and the copy engine stores it. Elsewhere it goes
// straight from registers to global memory. Both serve ragged ends, any strides and stacked heads alike.
#ifndef TESSERA_KERNELS_CUDA_SM90_EPILOGUE_H_
#define TESSERA_KERNELS_CUDA_SM90_EPILOGUE_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/online_softmax.h"
#include "kernels/cuda/ptx/registers.h"
#include "kernels/cuda/ptx/store.h"
#include "kernels/cuda/ptx/wgmma.h"
#include "kernels/cuda/row_repair.h"
#include "kernels/cuda/sm90/row_place.h"
#include "kernels/cuda/sm90/traits.h"
#include "kernels/cuda/tile/fragment.h"

namespace tessera::cuda::sm90 {

// row: this thread's first in the tile; the other is 8 further on.
__device__ __forceinline__ void StoreLse(const TileInfo& info, int row, const OnlineSoftmax& softmax,
                                         float factor_log2) {
  if (threadIdx.x % 4 != 0) return;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const RowPlace place = PlaceRow(info, row + 8 * i);
    if (!place.exists) continue;
    info.shape.lse[place.token * info.shape.lse_strides.token + place.q_head * info.shape.lse_strides.head] =
        softmax.Lse(i, factor_log2);
  }
}

// The four lanes of a quad transpose their words so that each stores 16 bytes, 64 adjacent ones a row. row: as for
// StoreLse. not_finite[i]: 0 where this thread's part of its row i is finite.
template <typename Element, int kOutputs>
__device__ __forceinline__ void StoreRows(const TileInfo& info, int row, const float (&o)[kOutputs],
                                          const float (&inverse)[2], int32_t head_dim, uint32_t (&not_finite)[2]) {
  static_assert(kOutputs % 16 == 0, "whole groups of 32 columns");
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const RowPlace place = PlaceRow(info, row + 8 * i);
    unsigned char* start =
        static_cast<unsigned char*>(info.shape.o) +
        (place.token * info.shape.o_strides.token + place.q_head * info.shape.o_strides.head) * tile::kElementBytes;
    not_finite[i] = 0;
#pragma unroll
    for (int group = 0; group < kOutputs / 16; ++group) {
      uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float* pair = &o[16 * group + 4 * j + 2 * i];
        words[j] = tile::Pack<Element>(pair[0] * inverse[i], pair[1] * inverse[i]);
        not_finite[i] = tile::MarkNotFinite<Element>(not_finite[i], words[j]);
      }
      tile::QuadTranspose(words, t);
      const int32_t column = 32 * group + 8 * t;
      if (place.exists && column < head_dim) {
        *reinterpret_cast<uint4*>(start + column * tile::kElementBytes) = {words[0], words[1], words[2], words[3]};
      }
    }
  }
}

// A warpgroup's rows in shared memory, in Q's layout.
template <typename Traits>
struct StagedRows {
  unsigned char* stage;

  // The byte offset of 16 bytes, 8 columns.
  __device__ __forceinline__ static int ChunkOffset(int row, int chunk) {
    using Layout = typename Traits::QLayout;
    constexpr int kChunks = Layout::kRowBytes / 16;  // of a row of a slab
    const int swizzle = kChunks == 8 ? row % 8 : row / 2 % 4;
    return chunk / kChunks * Layout::kSlabBytes + row * Layout::kRowBytes + (chunk % kChunks ^ swizzle) * 16;
  }

  // Where RepairRow writes a row.
  __device__ __forceinline__ auto Place(int row, int32_t, int32_t) const {
    return [stage = stage, row](int column) {
      unsigned char* const chunk = stage + ChunkOffset(row, column / 8);
      return reinterpret_cast<typename Traits::Element*>(chunk) + column % 8;
    };
  }
};

// A tile's rows in global memory.
template <typename Element>
struct GlobalRows {
  const SequenceShape& shape;

  __device__ __forceinline__ auto Place(int, int32_t token, int32_t q_head) const {
    Element* const o = static_cast<Element*>(shape.o) + token * shape.o_strides.token + q_head * shape.o_strides.head;
    return [o](int column) { return o + column; };
  }
};

// Normalises the warp's 16 rows and rounds them into `stage`. not_finite: as for StoreRows.
template <typename Traits, int kOutputs>
__device__ __forceinline__ void StageRows(const float (&o)[kOutputs], const float (&inverse)[2], unsigned char* stage,
                                          uint32_t (&not_finite)[2]) {
  using Element = typename Traits::Element;
  const int thread = ptx::ThreadAnew();
  const int lane = thread % 32;
  const int row = thread % kWarpgroup / 32 * 16 + lane % 16;
  const uint32_t address = ptx::SharedAddress(stage);
  not_finite[0] = not_finite[1] = 0;
#pragma unroll
  for (int step = 0; step < kOutputs / 8; ++step) {  // 16 columns
    uint32_t words[4];
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const float* pair = &o[8 * step + 2 * word];
      words[word] = tile::Pack<Element>(pair[0] * inverse[word % 2], pair[1] * inverse[word % 2]);
      not_finite[word % 2] = tile::MarkNotFinite<Element>(not_finite[word % 2], words[word]);
    }
    ptx::StoreMatrix(address + StagedRows<Traits>::ChunkOffset(row, 2 * step + lane / 16), words);
  }
}

// After StoreRows or StageRows in a tile with hidden values: redoes the warp's rows that are not finite. row: as for
// StoreLse.
template <typename Element, typename Rows>
__device__ __forceinline__ void RepairRows(const TileInfo& info, int row, const uint32_t (&not_finite)[2],
                                           const ForwardLaunch& launch, const Rows& rows) {
  if (__ballot_sync(0xffffffffu, (not_finite[0] | not_finite[1]) != 0) == 0) return;
  ptx::WgmmaWait<0>();  // the calls below may use any register: none may still be written by a product
  __syncwarp();         // other lanes have stored parts of the rows
  const SequenceEntry& entry = launch.sequences[info.sequence];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const RowPlace place = PlaceRow(info, row + 8 * i);
    const uint32_t broken = __ballot_sync(0xffffffffu, not_finite[i] != 0 && place.exists);
    for (int quad = 0; quad < 8; ++quad) {
      if ((broken >> 4 * quad & 0xfu) == 0) continue;
      const int32_t token = __shfl_sync(0xffffffffu, place.token, 4 * quad);
      const int32_t q_head = __shfl_sync(0xffffffffu, place.q_head, 4 * quad);
      const KeyRange keys = VisibleKeys(token, entry.shape.q_len, entry.shape.kv_len, launch.left, launch.right);
      const int32_t kv_head = entry.shape.group > 1 ? q_head / entry.shape.group : q_head / entry.shape.kv_ratio;
      const int row_of_warpgroup = threadIdx.x % kWarpgroup / 32 * 16 + quad + 8 * i;
      RepairRow<Element>(entry, token, q_head, kv_head, launch.head_dim, launch.score_map, keys,
                         rows.Place(row_of_warpgroup, token, q_head));
    }
  }
}

}  // namespace tessera::cuda::sm90

#endif  // TESSERA_KERNELS_CUDA_SM90_EPILOGUE_H_
