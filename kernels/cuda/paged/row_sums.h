// What the softmax of one row comes to over some keys, and putting several of them together.
#ifndef TESSERA_KERNELS_CUDA_PAGED_ROW_SUMS_H_
#define TESSERA_KERNELS_CUDA_PAGED_ROW_SUMS_H_

#include <cmath>

#include "kernels/cuda/ptx/math.h"
#include "kernels/cuda/score_map.h"

namespace tessera::cuda::paged {

// The outputs that go with it are sums of weight * v, not yet divided. Scores stay unscaled: their differences lose
// nothing however large they are, which a log-sum-exp in fp32 would.
struct RowSums {
  float max;  // largest mapped score; -inf where there is no key
  float sum;  // of the weights 2^((score - max) * factor_log2)
};

// By how much weights relative to `max` shrink when they become relative to `larger_max`. Both products are rounded, as
// in OnlineSoftmax.
__device__ __forceinline__ float Shrink(float max, float larger_max, float factor_log2) {
  const float offset = larger_max == -INFINITY ? 0.0f : __fmul_rn(larger_max, factor_log2);
  return ptx::Exp2(__fmul_rn(max, factor_log2) - offset);
}

// The natural logarithm of the sum of exponentials; -inf for no key.
__device__ __forceinline__ float LogSumExp(const RowSums& row, float factor_log2) {
  return row.sum == 0.0f ? -INFINITY : row.max * (factor_log2 * kLn2) + logf(row.sum);
}

__device__ __forceinline__ float Inverse(float sum) { return sum == 0.0f ? 0.0f : ptx::Reciprocal(sum); }

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_ROW_SUMS_H_
