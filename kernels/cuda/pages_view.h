// A sequence over pages as the forward kernels' host side takes it: a view whose K and V are those of page 0, and where
// the other pages are.
#ifndef TESSERA_KERNELS_CUDA_PAGES_VIEW_H_
#define TESSERA_KERNELS_CUDA_PAGES_VIEW_H_

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/paged_attention.h"

namespace tessera::cuda {

struct PagesView {
  const int32_t* pages;  // on the device
  int64_t page_tokens;
  int64_t page_stride;  // elements
};

inline PagesView PagesOf(const PagedParams& params, const PagedSequence& sequence) {
  return {sequence.pages.data(), params.page_tokens, params.page_stride};
}

inline SequenceView ViewOfPages(const PagedParams& params, const PagedSequence& sequence) {
  return {.q_len = sequence.q_len,
          .kv_len = sequence.kv_len,
          .q = sequence.q,
          .k = sequence.layer.k_pages,
          .v = sequence.layer.v_pages,
          .o = sequence.o,
          .lse = sequence.lse,
          .q_strides = sequence.q_strides,
          .k_strides = params.strides,
          .v_strides = params.strides,
          .o_strides = sequence.o_strides,
          .lse_strides = sequence.lse_strides};
}

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_PAGES_VIEW_H_
