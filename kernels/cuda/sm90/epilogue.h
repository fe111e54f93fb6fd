// A consumer warp's end of a tile: normalise, round and store 16 rows of O and their LSE.
//
// O goes straight from registers to global memory: the four lanes of a quad transpose their words so that each stores
// 16 bytes, 64 adjacent ones a row. That needs no shared memory, so the next tile's copies never wait for it, and it
// serves ragged ends, any strides and stacked heads alike.
#ifndef TESSERA_KERNELS_CUDA_SM90_EPILOGUE_H_
#define TESSERA_KERNELS_CUDA_SM90_EPILOGUE_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/online_softmax.h"
#include "kernels/cuda/ptx/wgmma.h"
#include "kernels/cuda/row_repair.h"
#include "kernels/cuda/sm90/row_place.h"
#include "kernels/cuda/sm90/traits.h"
#include "kernels/cuda/tile/fragment.h"

namespace tessera::cuda::sm90 {

template <typename Element, int kOutputs>
__device__ __forceinline__ void StoreRows(const TileInfo& info, const RowPlace (&places)[2], float (&o)[kOutputs],
                                          const float (&inverse)[2], const float (&lse)[2], int32_t head_dim, int t) {
  static_assert(kOutputs % 16 == 0, "whole groups of 32 columns");
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    unsigned char* row = static_cast<unsigned char*>(info.shape.o) +
                         (places[i].token * info.shape.o_strides.token + places[i].q_head * info.shape.o_strides.head) *
                             tile::kElementBytes;
#pragma unroll
    for (int group = 0; group < kOutputs / 16; ++group) {
      uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float* pair = &o[16 * group + 4 * j + 2 * i];
        pair[0] *= inverse[i];
        pair[1] *= inverse[i];
        words[j] = tile::Pack<Element>(pair[0], pair[1]);
      }
      tile::QuadTranspose(words, t);
      const int32_t column = 32 * group + 8 * t;
      if (places[i].exists && column < head_dim) {
        *reinterpret_cast<uint4*>(row + column * tile::kElementBytes) = {words[0], words[1], words[2], words[3]};
      }
    }
    if (t == 0 && places[i].exists && info.shape.lse != nullptr) {
      info.shape.lse[places[i].token * info.shape.lse_strides.token + places[i].q_head * info.shape.lse_strides.head] =
          lse[i];
    }
  }
}

// After StoreRows of a tile with masked blocks: redoes the warp's rows whose output is not finite.
template <typename Element, int kOutputs>
__device__ __forceinline__ void RepairRows(const SequenceEntry& entry, const RowPlace (&places)[2],
                                           const float (&o)[kOutputs], const ForwardLaunch& launch) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float probe = 0.0f;  // NaN unless all outputs are finite
#pragma unroll
    for (int j = 0; j < kOutputs / 4; ++j) probe += 0.0f * o[4 * j + 2 * i] + 0.0f * o[4 * j + 2 * i + 1];
    const uint32_t broken = __ballot_sync(0xffffffffu, probe != 0.0f && places[i].exists);
    if (broken == 0) continue;
    ptx::WgmmaWait<0>();  // the call below may use any register: none may still be written by a product
    for (int quad = 0; quad < 8; ++quad) {
      if ((broken >> 4 * quad & 0xfu) == 0) continue;
      const int lane = 4 * quad;
      const int32_t token = __shfl_sync(0xffffffffu, places[i].token, lane);
      const int32_t q_head = __shfl_sync(0xffffffffu, places[i].q_head, lane);
      const KeyRange keys = VisibleKeys(token, entry.shape.q_len, entry.shape.kv_len, launch.left, launch.right);
      __syncwarp();
      const int32_t kv_head = entry.shape.group > 1 ? q_head / entry.shape.group : q_head / entry.shape.kv_ratio;
      RepairRow<Element>(entry, token, q_head, kv_head, launch.head_dim, launch.score_map, keys);
    }
  }
}

}  // namespace tessera::cuda::sm90

#endif  // TESSERA_KERNELS_CUDA_SM90_EPILOGUE_H_
