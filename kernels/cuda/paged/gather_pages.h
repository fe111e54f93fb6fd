// K and V of one sequence out of its pages into contiguous tensors, for the forward kernels.
#ifndef TESSERA_KERNELS_CUDA_PAGED_GATHER_PAGES_H_
#define TESSERA_KERNELS_CUDA_PAGED_GATHER_PAGES_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tessera::cuda::paged {

// Strides in bytes.
struct PagedRowsView {
  const int32_t* pages;
  const void* k_pages;
  const void* v_pages;
  int64_t page_stride;
  int64_t token_stride;
  int64_t head_stride;
  int32_t page_shift;  // log2 of the tokens of a page
  int32_t first_key;
  int32_t keys;
  int32_t kv_heads;
  int32_t row_bytes;  // of one head; even
  int32_t first_new;  // the first key that this call appends
};

// Enqueues the copy to k and v, each packed [keys, kv_heads, row_bytes] and aligned to 16 bytes. `overlap`: what the
// kernel before it writes, where that ends early, is not read but for keys from first_new on (sm_90 and later).
cudaError_t GatherPages(const PagedRowsView& rows, void* k, void* v, bool overlap, cudaStream_t stream);

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_GATHER_PAGES_H_
