// OnlineSoftmax for splits: its state is a result, and outputs are brought to a new maximum only where there is one.
#ifndef TESSERA_KERNELS_CUDA_PAGED_ROW_SOFTMAX_H_
#define TESSERA_KERNELS_CUDA_PAGED_ROW_SOFTMAX_H_

#include <cmath>

#include "kernels/cuda/paged/row_sums.h"
#include "kernels/cuda/ptx/math.h"
#include "kernels/cuda/tile/fragment.h"

namespace tessera::cuda::paged {

// Of a warp's 16 rows, two a thread, on accumulator fragments of 16 keys.
class RowSoftmax {
 public:
  __device__ __forceinline__ void Reset() {
    max_[0] = max_[1] = -INFINITY;
    sum_[0] = sum_[1] = 0.0f;
  }

  // Scores, which may be -inf, -> weights in place. True, in all lanes alike, where some row's maximum rose: then
  // earlier outputs have to be multiplied by shrink[i] for row i.
  __device__ __forceinline__ bool Update(float (&s)[8], float factor_log2, float (&shrink)[2]) {
    bool rose = false;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float highest = fmaxf(fmaxf(s[2 * i], s[2 * i + 1]), fmaxf(s[4 + 2 * i], s[4 + 2 * i + 1]));
      const float max = fmaxf(max_[i], tile::QuadMax(highest));
      const float offset = max == -INFINITY ? 0.0f : __fmul_rn(max, factor_log2);
      shrink[i] = Shrink(max_[i], max, factor_log2);
      rose |= max != max_[i];
      max_[i] = max;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int b = 0; b < 2; ++b) {
          float& score = s[4 * j + 2 * i + b];
          score = ptx::Exp2(__fmaf_rn(score, factor_log2, -offset));
        }
      }
      sum_[i] = sum_[i] * shrink[i] + ((s[2 * i] + s[2 * i + 1]) + (s[4 + 2 * i] + s[4 + 2 * i + 1]));
    }
    return __any_sync(0xffffffffu, rose);
  }

  // Of row i, the sum over its quad.
  __device__ __forceinline__ RowSums sums(int i) const { return {max_[i], tile::QuadSum(sum_[i])}; }

 private:
  float max_[2];
  float sum_[2];  // of this thread's keys
};

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_ROW_SOFTMAX_H_
