// One row against the keys of one split by one warp, without tensor cores, key by key and for any strides. What it is
// for: rows that came out not finite because of a value that they do not see (0 * NaN is NaN), NaN in fp8, fp32, and
// tensors that 16-byte accesses cannot read.
#ifndef TESSERA_KERNELS_CUDA_PAGED_ROW_BY_ROW_H_
#define TESSERA_KERNELS_CUDA_PAGED_ROW_BY_ROW_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/exact_score.h"
#include "kernels/cuda/paged/element.h"
#include "kernels/cuda/paged/paged_work.h"
#include "kernels/cuda/paged/row_output.h"
#include "kernels/cuda/summed_keys.h"

namespace tessera::cuda::paged {

// Stores what StoreRow would. By one whole warp.
template <typename Element, typename Cached>
__device__ __noinline__ void ComputeRow(const PagedLaunch& launch, const PagedWork& work, int row) {
  constexpr int kGroups = 2;  // of 128 columns, four a lane
  const PagedEntry& entry = work.entry;
  const int first_column = threadIdx.x % 32 * 4;
  const RowPlace place = work.Place(launch, row);
  const Element* q =
      static_cast<const Element*>(entry.q) + place.token * entry.q_strides.token + place.q_head * entry.q_strides.head;
  float query[kGroups][4], output[kGroups][4];
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = 128 * group + first_column + i;
      query[group][i] = column < launch.head_dim ? AsFloat(q[column]) : 0.0f;
      output[group][i] = 0.0f;
    }
  }
  const ScoreMap scores = work.scores;
  RowSums sums = {-INFINITY, 0.0f};
  const KeyRange keys = work.VisibleTo(launch, row);
  for (int32_t first_key = keys.begin; first_key < keys.end; first_key += kSummedKeys) {
    float block_sum = 0.0f, block_output[kGroups][4] = {};
    const int32_t end_key = min(keys.end, first_key + kSummedKeys);
    for (int32_t key = first_key; key < end_key; ++key) {
      const int64_t at = KeyPlace(launch, entry, key) + work.kv_head * launch.page_strides.head;
      const Cached* k = static_cast<const Cached*>(entry.k_pages) + at;
      const Cached* v = static_cast<const Cached*>(entry.v_pages) + at;
      float dot = 0.0f;
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = 128 * group + first_column + i;
          if (column < launch.head_dim) dot += query[group][i] * AsFloat(k[column]);
        }
      }
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, distance);
      const float score = ExactScore(scores, dot);
      const float max = fmaxf(sums.max, score);
      const float shrink = Shrink(sums.max, max, scores.factor_log2);
      const float weight = Shrink(score, max, scores.factor_log2);
      sums = {max, sums.sum * shrink};
      block_sum = block_sum * shrink + weight;
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = 128 * group + first_column + i;
          output[group][i] *= shrink;
          if (column < launch.head_dim) {
            block_output[group][i] = block_output[group][i] * shrink + weight * AsFloat(v[column]);
          }
        }
      }
    }
    sums.sum += block_sum;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
      for (int i = 0; i < 4; ++i) output[group][i] += block_output[group][i];
    }
  }
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const int column = 128 * group + first_column;
    if (column < launch.head_dim) {
      StoreRow<Element>(launch, work, row, column, output[group], sums);
    }
  }
}

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_ROW_BY_ROW_H_
