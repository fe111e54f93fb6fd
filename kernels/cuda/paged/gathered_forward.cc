#include "kernels/cuda/paged/gathered_forward.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/paged/gather_pages.h"
#include "kernels/cuda/pages_view.h"
#include "kernels/mask.h"
#include "kernels/traffic_model.h"

namespace tessera::cuda::paged {
namespace {

constexpr size_t kAlignment = 256;

// The sequence over contiguous K and V, which are still to be named.
SequenceView WithoutKeys(const PagedParams& params, const PagedSequence& sequence) {
  SequenceView view = ViewOfPages(params, sequence);
  view.k = view.v = nullptr;
  view.k_strides = view.v_strides = Strides::Packed(params.attention.kv_heads, params.attention.head_dim);
  return view;
}

// The keys that some row sees, to the end: that keeps the rows' positions relative to them. And as many before them as
// fill up the first tile, which then begins where it does for pages that are read as they are.
KeyRange Gathered(const PagedParams& params, const PagedSequence& sequence, const ForwardBackend& forward) {
  const MaskGeometry mask(params.attention.mask, sequence.q_len, sequence.kv_len);
  const int64_t tile_keys = forward.TileKeys(params.attention, WithoutKeys(params, sequence));
  return {mask.VisibleTo(0).begin / tile_keys * tile_keys, sequence.kv_len};
}

// Of K or V, rounded up so that the other one may follow.
size_t TensorBytes(const PagedParams& params, int64_t keys) {
  const int64_t bytes = keys * params.attention.kv_heads * params.attention.head_dim * SizeOf(params.cache_dtype);
  return (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

size_t GatheredBytes(const PagedParams& params, const PagedSequence& sequence, const ForwardBackend& forward) {
  return std::max(2 * TensorBytes(params, Gathered(params, sequence, forward).size()), kAlignment);
}

absl::Status ForwardGathered(const PagedParams& params, const PagedSequence& sequence, ForwardBackend& forward,
                             void* copy, StreamHandle stream, bool overlap, ForwardStats* stats) {
  const AttentionParams& attention = params.attention;
  const int64_t element = SizeOf(params.cache_dtype);
  const KeyRange keys = Gathered(params, sequence, forward);
  void* const k = copy;
  void* const v = static_cast<unsigned char*>(copy) + TensorBytes(params, keys.size());
  const PagedRowsView rows = {.pages = sequence.pages.data(),
                              .k_pages = sequence.layer.k_pages,
                              .v_pages = sequence.layer.v_pages,
                              .page_stride = params.page_stride * element,
                              .token_stride = params.strides.token * element,
                              .head_stride = params.strides.head * element,
                              .page_shift = std::countr_zero(static_cast<uint64_t>(params.page_tokens)),
                              .first_key = static_cast<int32_t>(keys.begin),
                              .keys = static_cast<int32_t>(keys.size()),
                              .kv_heads = attention.kv_heads,
                              .row_bytes = static_cast<int32_t>(attention.head_dim * element),
                              .first_new = static_cast<int32_t>(sequence.kv_len - sequence.append_len)};
  const absl::Status status = ToStatus(GatherPages(rows, k, v, overlap, static_cast<cudaStream_t>(stream)),
                                       "gathering K and V out of their pages");
  if (!status.ok()) return status;
  SequenceView view = WithoutKeys(params, sequence);
  view.kv_len = keys.size();
  view.k = k;
  view.v = v;
  const absl::Status forwarded = forward.Forward(attention, {&view, 1}, stream, stats);
  if (stats != nullptr) {
    const double copied = 2.0 * static_cast<double>(keys.size()) * attention.kv_heads * attention.head_dim;
    stats->hbm_bytes += 2 * copied * static_cast<double>(element);  // read and written
  }
  return forwarded;
}

}  // namespace tessera::cuda::paged
