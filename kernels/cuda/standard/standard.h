// Standard attention: the whole score matrix in device memory. The baseline that the tiled kernels are measured
// against.
//
// Three kernels a call, each a pass over the scores of some heads of one sequence: S = map(Q K^T) with hidden keys at
// -inf, stored in the element type; P = softmax(S) row by row, in place; O = P V. A fourth redoes the rows that a value
// which is not finite has reached without being seen.
#ifndef TESSERA_KERNELS_CUDA_STANDARD_STANDARD_H_
#define TESSERA_KERNELS_CUDA_STANDARD_STANDARD_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/forward_table.h"
#include "kernels/cuda/score_map.h"

namespace tessera::cuda::standard {

// Query heads [first_head, first_head + heads) of one sequence.
struct StandardLaunch {
  SequenceEntry entry;  // shape.group is 1; tensor maps are not used
  int32_t first_head;
  int32_t heads;
  int32_t head_dim;
  int32_t left;  // as in ForwardLaunch
  int32_t right;
  ScoreMap score_map;
  void* scores;  // ScoreBytes of device memory, aligned to 16 bytes; its contents are lost
};

// Scores in a row of the matrix, rows starting at multiples of 16 bytes.
__host__ __device__ constexpr int64_t ScorePitch(int64_t kv_len, int64_t element_bytes) {
  const int64_t unit = 16 / element_bytes;
  return (kv_len + unit - 1) / unit * unit;
}

// Bytes that the scores of `heads` heads take.
__host__ __device__ constexpr int64_t ScoreBytes(int64_t q_len, int64_t kv_len, int64_t heads, int64_t element_bytes) {
  return heads * q_len * ScorePitch(kv_len, element_bytes) * element_bytes;
}

// Each enqueues its kernels on `stream`. REQUIRES: heads at most 65535.
cudaError_t StandardForwardFp32(const StandardLaunch& launch, cudaStream_t stream);
cudaError_t StandardForwardFp16(const StandardLaunch& launch, cudaStream_t stream);
cudaError_t StandardForwardBf16(const StandardLaunch& launch, cudaStream_t stream);

}  // namespace tessera::cuda::standard

#endif  // TESSERA_KERNELS_CUDA_STANDARD_STANDARD_H_
