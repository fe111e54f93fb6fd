// The online softmax of a warp's 16 rows (two a thread), on accumulator fragments of any 16-bit product.
//
// Scores arrive block by block. For each row it keeps the maximum m of the raw scores and this thread's part of the sum
// l of exp(scale * (s - m)); exponentials are powers of two with scale * log2(e) folded in, one FFMA a score.
#ifndef TESSERA_KERNELS_CUDA_ONLINE_SOFTMAX_H_
#define TESSERA_KERNELS_CUDA_ONLINE_SOFTMAX_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/key_range.h"
#include "kernels/cuda/ptx/math.h"
#include "kernels/cuda/score_map.h"
#include "kernels/cuda/tile/fragment.h"

namespace tessera::cuda {

class OnlineSoftmax {
 public:
  __device__ __forceinline__ void Reset() {
    m_[0] = m_[1] = -INFINITY;
    l_[0] = l_[1] = 0.0f;
  }

  // Scores -> exponentials in place. On return earlier outputs have to be multiplied by rescale[i] for row i.
  // kMasked: scores may be -inf and rows may have seen no key yet. Otherwise all scores are ordinary.
  template <bool kMasked, int kFloats>
  __device__ __forceinline__ void Update(float (&s)[kFloats], float factor_log2, float (&rescale)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float block_max = s[2 * i];
#pragma unroll
      for (int j = 0; j < kFloats / 4; ++j) {
        block_max = fmaxf(block_max, fmaxf(s[4 * j + 2 * i], s[4 * j + 2 * i + 1]));
      }
      const float m = fmaxf(m_[i], tile::QuadMax(block_max));
      // Both products are rounded, as in the scores' offsets, old and new: an FFMA would leave a difference.
      const float offset = kMasked && m == -INFINITY ? 0.0f : __fmul_rn(m, factor_log2);
      rescale[i] = ptx::Exp2(__fmul_rn(m_[i], factor_log2) - offset);
      m_[i] = m;
      float sum[2] = {0.0f, 0.0f};
#pragma unroll
      for (int j = 0; j < kFloats / 4; ++j) {
#pragma unroll
        for (int b = 0; b < 2; ++b) {
          float& score = s[4 * j + 2 * i + b];
          score = ptx::Exp2(__fmaf_rn(score, factor_log2, -offset));
          sum[b] += score;
        }
      }
      l_[i] = l_[i] * rescale[i] + (sum[0] + sum[1]);
    }
  }

  // After the last block: inverse[i] = 1 / l, 0 for a row without keys; lse[i], natural, -inf for such a row.
  __device__ __forceinline__ void Finish(float factor_log2, float (&inverse)[2], float (&lse)[2]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float l = tile::QuadSum(l_[i]);
      inverse[i] = l == 0.0f ? 0.0f : ptx::Reciprocal(l);
      lse[i] = l == 0.0f ? -INFINITY : m_[i] * (factor_log2 * kLn2) + logf(l);
    }
  }

 private:
  float m_[2];
  float l_[2];
};

// Sets the scores of keys outside of a row's range to -inf. Fragment columns are keys first_key + 8 * j + 2 * t + b.
template <int kFloats>
__device__ __forceinline__ void MaskScores(float (&s)[kFloats], const KeyRange (&rows)[2], int32_t first_key, int t) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int32_t begin = rows[i].begin - first_key - 2 * t;
    const int32_t end = rows[i].end - first_key - 2 * t;
#pragma unroll
    for (int j = 0; j < kFloats / 4; ++j) {
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        const int32_t column = 8 * j + b;
        if (column < begin || column >= end) s[4 * j + 2 * i + b] = -INFINITY;
      }
    }
  }
}

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_ONLINE_SOFTMAX_H_
