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

  // After the last block, before Inverse and Lse.
  __device__ __forceinline__ void SumQuads() {
#pragma unroll
    for (int i = 0; i < 2; ++i) l_[i] = tile::QuadSum(l_[i]);
  }

  // 1 / l of row i; 0 for a row without keys.
  __device__ __forceinline__ float Inverse(int i) const { return l_[i] == 0.0f ? 0.0f : ptx::Reciprocal(l_[i]); }

  // Natural; -inf for a row without keys.
  __device__ __forceinline__ float Lse(int i, float factor_log2) const {
    return l_[i] == 0.0f ? -INFINITY : m_[i] * (factor_log2 * kLn2) + logf(l_[i]);
  }

 private:
  float m_[2];
  float l_[2];
};

// Bit j set where key 8 * j lies in begin <= key < end. REQUIRES: j < 31 for the bits that matter.
__device__ __forceinline__ uint32_t VisibleGroups(int32_t begin, int32_t end) {
  const auto below = [](int32_t key) { return (1u << min(max((key + 7) >> 3, 0), 31)) - 1; };
  return below(end) & ~below(begin);
}

// Sets the scores of keys outside of a row's range to -inf. Fragment columns are keys first_key + 8 * j + 2 * t + b.
template <int kFloats>
__device__ __forceinline__ void MaskScores(float (&s)[kFloats], const KeyRange (&rows)[2], int32_t first_key, int t) {
  static_assert(kFloats / 4 < 31);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const int32_t column = first_key + 2 * t + b;
      const uint32_t visible = VisibleGroups(rows[i].begin - column, rows[i].end - column);
#pragma unroll
      for (int j = 0; j < kFloats / 4; ++j) {
        if ((visible >> j & 1) == 0) s[4 * j + 2 * i + b] = -INFINITY;
      }
    }
  }
}

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_ONLINE_SOFTMAX_H_
