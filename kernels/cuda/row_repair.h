// One query row computed by one warp without tensor cores, key by key: the exact answer where V is not finite.
//
// In a tile that is partly masked a product multiplies hidden values by probability 0, and 0 * inf and 0 * NaN are NaN,
// so a value that is not finite reaches rows that do not see it. Kernels therefore look at each row of such a tile
// once, at its end, and redo here the rows that came out not finite. Rows that do see such a value come out the same
// again.
#ifndef TESSERA_KERNELS_CUDA_ROW_REPAIR_H_
#define TESSERA_KERNELS_CUDA_ROW_REPAIR_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/forward_table.h"
#include "kernels/cuda/key_range.h"
#include "kernels/cuda/online_softmax.h"
#include "kernels/cuda/summed_keys.h"
#include "kernels/cuda/tile/fragment.h"

namespace tessera::cuda {

// Elements from K's or V's pointer to a key's row of the first head.
__device__ __forceinline__ int64_t KeyOffset(const KeyPages& pages, int32_t key, int64_t token_stride) {
  if (pages.numbers == nullptr) return key * token_stride;
  const int32_t slot = key & ((1 << pages.page_shift) - 1);
  return pages.numbers[key >> pages.page_shift] * pages.stride + slot * token_stride;
}

// Computes the output of one row, writes column c to *place(c) and returns the row's LSE. By one whole warp; keys:
// those that the row sees.
template <typename Element, typename Place>
__device__ __noinline__ float RepairRow(const SequenceEntry& entry, int32_t token, int32_t q_head, int32_t kv_head,
                                        int32_t head_dim, ScoreMap score_map, KeyRange keys, Place place) {
  constexpr int kChunks = 8;  // 32 columns each, up to head_dim 256
  const int lane = threadIdx.x % 32;
  const Element* q =
      static_cast<const Element*>(entry.q) + token * entry.q_strides.token + q_head * entry.q_strides.head;
  float query[kChunks], output[kChunks];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int column = 32 * c + lane;
    query[c] = column < head_dim ? static_cast<float>(q[column]) : 0.0f;
    output[c] = 0.0f;
  }
  float m = -INFINITY, l = 0.0f;
  float score[1];
  for (int32_t first_key = keys.begin; first_key < keys.end; first_key += kSummedKeys) {
    float block_l = 0.0f, block_output[kChunks] = {};
    const int32_t end_key = min(keys.end, first_key + kSummedKeys);
    for (int32_t key = first_key; key < end_key; ++key) {
      const Element* k = static_cast<const Element*>(entry.k) +
                         KeyOffset(entry.shape.pages, key, entry.k_strides.token) + kv_head * entry.k_strides.head;
      const Element* v = static_cast<const Element*>(entry.v) +
                         KeyOffset(entry.shape.pages, key, entry.v_strides.token) + kv_head * entry.v_strides.head;
      score[0] = 0.0f;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const int column = 32 * c + lane;
        if (column < head_dim) score[0] += query[c] * static_cast<float>(k[column]);
      }
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) score[0] += __shfl_xor_sync(0xffffffffu, score[0], distance);
      score_map.Apply(score);
      score[0] *= score_map.factor_log2;
      const float next_m = fmaxf(m, score[0]);
      const float offset = next_m == -INFINITY ? 0.0f : next_m;
      const float rescale = ptx::Exp2(m - offset);
      const float p = ptx::Exp2(score[0] - offset);
      m = next_m;
      l *= rescale;
      block_l = block_l * rescale + p;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const int column = 32 * c + lane;
        output[c] *= rescale;
        if (column < head_dim) block_output[c] = block_output[c] * rescale + p * static_cast<float>(v[column]);
      }
    }
    l += block_l;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) output[c] += block_output[c];
  }
  const float inverse = l == 0.0f ? 0.0f : ptx::Reciprocal(l);
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int column = 32 * c + lane;
    if (column < head_dim) *place(column) = static_cast<Element>(output[c] * inverse);
  }
  return l == 0.0f ? -INFINITY : m * kLn2 + logf(l);
}

// The same, with the row at its place in global memory.
template <typename Element>
__device__ __forceinline__ float RepairRow(const SequenceEntry& entry, int32_t token, int32_t q_head, int32_t kv_head,
                                           int32_t head_dim, ScoreMap score_map, KeyRange keys) {
  Element* o =
      static_cast<Element*>(entry.shape.o) + token * entry.shape.o_strides.token + q_head * entry.shape.o_strides.head;
  const auto place = [o](int column) { return o + column; };
  return RepairRow<Element>(entry, token, q_head, kv_head, head_dim, score_map, keys, place);
}

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_ROW_REPAIR_H_
