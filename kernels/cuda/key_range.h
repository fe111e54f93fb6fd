// Which keys the rows of a tile see, in blocks: the device's side of kernels/mask.h, in 32-bit numbers.
#ifndef TESSERA_KERNELS_CUDA_KEY_RANGE_H_
#define TESSERA_KERNELS_CUDA_KEY_RANGE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/forward_table.h"

namespace tessera::cuda {

// Keys begin <= j < end.
struct KeyRange {
  int32_t begin;
  int32_t end;
};

// Keys that token `token` sees. REQUIRES: 0 <= token < q_len, 0 <= left, right <= kUnboundedSide.
__host__ __device__ inline KeyRange VisibleKeys(int32_t token, int32_t q_len, int32_t kv_len, int32_t left,
                                                int32_t right) {
  const int32_t position = token + (kv_len - q_len);
  const int32_t begin = position - left;
  const int32_t end = position + right + 1;
  return {left == kUnboundedSide || begin < 0 ? 0 : begin, right == kUnboundedSide || end > kv_len ? kv_len : end};
}

// Key blocks of a tile: [begin, end) have a visible key; of them [whole_begin, whole_end) are seen whole by every row.
struct KeyBlocks {
  int32_t begin;
  int32_t end;
  int32_t whole_begin;
  int32_t whole_end;

  __host__ __device__ bool empty() const { return begin >= end; }
  __host__ __device__ bool any_masked() const { return begin < whole_begin || whole_end < end; }
  __host__ __device__ bool needs_mask(int32_t block) const { return block < whole_begin || block >= whole_end; }
};

// Of tokens first..last, with blocks of `width` keys. Both ends of a token's range only grow from token to token.
__host__ __device__ inline KeyBlocks VisibleBlocks(int32_t first, int32_t last, int32_t q_len, int32_t kv_len,
                                                   int32_t left, int32_t right, int32_t width) {
  const KeyRange low = VisibleKeys(first, q_len, kv_len, left, right);
  const KeyRange high = VisibleKeys(last, q_len, kv_len, left, right);
  KeyBlocks blocks;
  blocks.begin = low.begin / width;
  blocks.end = high.end > 0 ? (high.end + width - 1) / width : 0;
  blocks.whole_begin = (high.begin + width - 1) / width;
  blocks.whole_end = low.end > 0 ? low.end / width : 0;
  if (high.end <= low.begin) blocks.end = blocks.begin;
  return blocks;
}

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_KEY_RANGE_H_
