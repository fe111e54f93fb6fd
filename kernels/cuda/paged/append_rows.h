// New rows of K and V into pages.
#ifndef TESSERA_KERNELS_CUDA_PAGED_APPEND_ROWS_H_
#define TESSERA_KERNELS_CUDA_PAGED_APPEND_ROWS_H_

#include <cstdint>

#include "kernels/cuda/paged/element.h"
#include "kernels/cuda/paged/paged_work.h"

namespace tessera::cuda::paged {

// One new row of one key head, token kv_len - append_len + row. By a whole warp.
template <typename Element, typename Cached>
__device__ __forceinline__ void AppendRow(const PagedLaunch& launch, const PagedEntry& entry, int32_t row,
                                          int32_t kv_head) {
  constexpr int kUnroll = 4;  // so many of K and as many of V are on their way to a lane
  const int64_t to =
      KeyPlace(launch, entry, entry.kv_len - entry.append_len + row) + kv_head * launch.page_strides.head;
  const Element* k =
      static_cast<const Element*>(entry.k) + row * entry.k_strides.token + kv_head * entry.k_strides.head;
  const Element* v =
      static_cast<const Element*>(entry.v) + row * entry.v_strides.token + kv_head * entry.v_strides.head;
  const float k_scale = entry.k_scales == nullptr ? 1.0f : entry.k_scales[kv_head];
  const float v_scale = entry.v_scales == nullptr ? 1.0f : entry.v_scales[kv_head];
  for (int first = threadIdx.x % 32; first < launch.head_dim; first += 32 * kUnroll) {
    Element k_read[kUnroll], v_read[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      if (first + 32 * i < launch.head_dim) k_read[i] = k[first + 32 * i], v_read[i] = v[first + 32 * i];
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const int column = first + 32 * i;
      if (column >= launch.head_dim) break;
      static_cast<Cached*>(entry.k_pages)[to + column] = ToCached<Cached>(k_read[i], k_scale);
      static_cast<Cached*>(entry.v_pages)[to + column] = ToCached<Cached>(v_read[i], v_scale);
    }
  }
}

// Appends the rows whose keys are in this block's split, for its key head, and makes them visible to the block's
// copies. By the whole block.
template <typename Element, typename Cached>
__device__ __forceinline__ void AppendSplit(const PagedLaunch& launch, const PagedWork& work) {
  const PagedEntry& entry = work.entry;
  const int32_t first_new = entry.kv_len - entry.append_len;
  if (!entry.appends || work.split_range.end <= first_new) return;
  const int32_t begin = max(work.split_range.begin, first_new);
  for (int32_t key = begin + threadIdx.x / 32; key < work.split_range.end; key += blockDim.x / 32) {
    AppendRow<Element, Cached>(launch, entry, key - first_new, work.kv_head);
  }
  __threadfence();
  __syncthreads();
}

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_APPEND_ROWS_H_
