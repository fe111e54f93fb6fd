// From raw products to what the softmax takes the exponential of.
//
// Usually nothing is done to a score: the softmax multiplies by factor_log2 = scale * log2(e) on its way to a power of
// two. A softcap, or a scale that is not positive (then the largest product is not the largest score), is applied to
// each score first.
#ifndef TESSERA_KERNELS_CUDA_SCORE_MAP_H_
#define TESSERA_KERNELS_CUDA_SCORE_MAP_H_

#include <cstdint>

#ifdef __CUDACC__
#include "kernels/cuda/ptx/math.h"
#endif

namespace tessera::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

// Made on the host and read from the kernel's arguments, so that it takes no registers.
struct ScoreMap {
  float factor_log2;  // what is left for the softmax to multiply by, log2(e) included
  float scale;
  float softcap;    // 0: none
  float tanh_log2;  // 2 * scale * log2(e) / softcap
  int32_t applies;  // whether Apply changes anything

  static ScoreMap Of(float scale, float softcap) {
    const bool applies = softcap > 0.0f || !(scale > 0.0f);
    return {applies ? kLog2E : scale * kLog2E, scale, softcap, softcap > 0.0f ? 2.0f * kLog2E * scale / softcap : 0.0f,
            applies};
  }

#ifdef __CUDACC__
  // tanh(x) = 1 - 2 / (1 + exp(2x)): absolute error 1e-7 and exact limits, where the tanh instruction's 5e-4 times the
  // cap would show in the output.
  template <int kFloats>
  __device__ __forceinline__ void Apply(float (&scores)[kFloats]) const {
    if (!applies) return;
    if (softcap > 0.0f) {
#pragma unroll
      for (int i = 0; i < kFloats; ++i) {
        scores[i] = softcap - 2.0f * softcap * ptx::Reciprocal(1.0f + ptx::Exp2(scores[i] * tanh_log2));
      }
    } else {
#pragma unroll
      for (int i = 0; i < kFloats; ++i) scores[i] *= scale;
    }
  }
#endif
};

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_SCORE_MAP_H_
