// ScoreMap::Apply to fp32's own accuracy, for kernels whose results are fp32: its tanh errs by 1e-7 of the cap.
#ifndef TESSERA_KERNELS_CUDA_EXACT_SCORE_H_
#define TESSERA_KERNELS_CUDA_EXACT_SCORE_H_

#include "kernels/cuda/score_map.h"

namespace tessera::cuda {

__device__ __forceinline__ float ExactScore(const ScoreMap& map, float raw) {
  if (!map.applies) return raw;
  const float score = raw * map.scale;
  return map.softcap > 0.0f ? map.softcap * tanhf(score / map.softcap) : score;
}

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_EXACT_SCORE_H_
