// The tensors of one key head of a paged sequence, element types known at run time: conversion is a call a tile, so
// that one kernel serves them all.
#if defined(TESSERA_KERNELS_CPU_PAGED_TENSORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_CPU_PAGED_TENSORS_INL_H_
#undef TESSERA_KERNELS_CPU_PAGED_TENSORS_INL_H_
#else
#define TESSERA_KERNELS_CPU_PAGED_TENSORS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/attention.h"
#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/pack-inl.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/tile_shape.h"
#include "kernels/float8.h"
#include "kernels/half.h"
#include "kernels/paged_attention.h"

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What BlockForward asks of its tensors (see StridedTensors), and single rows. K's scale is left to the caller, who has
// it in the scores' scale; V's is applied to what is stored.
class PagedTensors {
 public:
  PagedTensors(const PagedParams& params, const PagedSequence& sequence, int64_t kv_head)
      : params_(params),
        sequence_(sequence),
        head_dim_(params.attention.head_dim),
        group_(params.attention.q_heads / params.attention.kv_heads),
        first_head_(kv_head * group_),
        head_offset_(kv_head * params.strides.head),
        page_shift_(std::countr_zero(static_cast<uint64_t>(params.page_tokens))),
        value_scale_(params.cache_dtype == CacheDType::kFloat8 ? sequence.layer.v_scales[kv_head] : 1.0f) {}

  HWY_NOINLINE void PackQueries(int64_t first_row, int64_t rows, float factor, int64_t stride, float* panel) const {
    const auto pack = [&](const auto* q) HWY_ATTR {
      tessera::HWY_NAMESPACE::PackQueries(q, Layout(sequence_.q_strides), first_row, rows, head_dim_, factor, stride,
                                          panel);
    };
    switch (params_.attention.dtype) {
      case DType::kFloat32:
        return pack(static_cast<const float*>(sequence_.q));
      case DType::kFloat16:
        return pack(static_cast<const Half*>(sequence_.q));
      case DType::kBFloat16:
        return pack(static_cast<const BFloat16*>(sequence_.q));
    }
  }

  HWY_NOINLINE bool PackTile(int64_t begin, int64_t end, float* k, float* v) const {
    switch (params_.cache_dtype) {
      case CacheDType::kFloat32:
        return PackPages<float>(begin, end, k, v);
      case CacheDType::kFloat16:
        return PackPages<Half>(begin, end, k, v);
      case CacheDType::kBFloat16:
        return PackPages<BFloat16>(begin, end, k, v);
      case CacheDType::kFloat8:
        return PackPages<Float8>(begin, end, k, v);
    }
    return false;
  }

  // Of keys that lie in more than one page, those in the first.
  TilePrefetch Prefetch(int64_t begin, int64_t end, int64_t steps) const {
    if (begin >= end) return {};
    const int64_t element = SizeOf(params_.cache_dtype);
    const int64_t offset = Offset(begin) * element;
    const int64_t stride = params_.strides.token * element;
    return TilePrefetch(static_cast<const std::byte*>(sequence_.layer.k_pages) + offset, stride,
                        static_cast<const std::byte*>(sequence_.layer.v_pages) + offset, stride, head_dim_ * element,
                        std::min(end, PageEnd(begin)) - begin, steps);
  }

  HWY_NOINLINE void StoreOutputs(const float* panel, const float* divide, int64_t stride, int64_t first_row,
                                 int64_t rows) const {
    HWY_ALIGN float factors[kTileRows];
    for (int64_t row = 0; row < stride; ++row) factors[row] = divide[row] * value_scale_;
    const auto unpack = [&](auto* o) HWY_ATTR {
      UnpackOutputs(panel, factors, stride, Layout(sequence_.o_strides), first_row, rows, head_dim_, o);
    };
    switch (params_.attention.dtype) {
      case DType::kFloat32:
        return unpack(static_cast<float*>(sequence_.o));
      case DType::kFloat16:
        return unpack(static_cast<Half*>(sequence_.o));
      case DType::kBFloat16:
        return unpack(static_cast<BFloat16*>(sequence_.o));
    }
  }

  void StoreLse(const float* lse, int64_t first_row, int64_t rows) const {
    if (sequence_.lse == nullptr) return;
    const StackedRows layout = Layout(sequence_.lse_strides);
    for (int64_t row = 0; row < rows; ++row) sequence_.lse[layout.Offset(first_row + row)] = lse[row];
  }

  // One row of Q, times `factor`, to `to` [head_dim].
  HWY_NOINLINE void LoadQuery(int64_t row, float factor, float* to) const {
    const int64_t offset = Layout(sequence_.q_strides).Offset(row);
    const auto load = [&](const auto* q) HWY_ATTR {
      const hn::CappedTag<float, 8> d;  // head_dim is a multiple of 8
      for (int64_t c = 0; c < head_dim_; c += hn::MaxLanes(d)) {
        hn::StoreU(hn::Mul(hn::Set(d, factor), LoadFloats(d, q + offset + c)), d, to + c);
      }
    };
    switch (params_.attention.dtype) {
      case DType::kFloat32:
        return load(static_cast<const float*>(sequence_.q));
      case DType::kFloat16:
        return load(static_cast<const Half*>(sequence_.q));
      case DType::kBFloat16:
        return load(static_cast<const BFloat16*>(sequence_.q));
    }
  }

  // One row of O: `from` [head_dim] times `factor`.
  HWY_NOINLINE void StoreOutput(const float* from, float factor, int64_t row) const {
    const int64_t offset = Layout(sequence_.o_strides).Offset(row);
    const auto store = [&](auto* o) HWY_ATTR {
      const hn::CappedTag<float, 8> d;
      const auto scale = hn::Set(d, factor * value_scale_);
      for (int64_t c = 0; c < head_dim_; c += hn::MaxLanes(d)) {
        StoreFloats(d, hn::Mul(scale, hn::LoadU(d, from + c)), o + offset + c);
      }
    };
    switch (params_.attention.dtype) {
      case DType::kFloat32:
        return store(static_cast<float*>(sequence_.o));
      case DType::kFloat16:
        return store(static_cast<Half*>(sequence_.o));
      case DType::kBFloat16:
        return store(static_cast<BFloat16*>(sequence_.o));
    }
  }

 private:
  StackedRows Layout(const Strides& strides) const { return {strides, first_head_, group_}; }

  // Elements from the beginning of the pages to a key's row.
  int64_t Offset(int64_t key) const {
    return sequence_.pages[key >> page_shift_] * params_.page_stride +
           (key & (params_.page_tokens - 1)) * params_.strides.token + head_offset_;
  }
  // The first key of the next page.
  int64_t PageEnd(int64_t key) const { return ((key >> page_shift_) + 1) << page_shift_; }

  template <typename T>
  HWY_INLINE bool PackPages(int64_t begin, int64_t end, float* k, float* v) const {
    bool finite = true;
    for (int64_t key = begin; key < end;) {
      const int64_t next = std::min(end, PageEnd(key));
      const int64_t offset = Offset(key);
      const int64_t to = (key - begin) * kKeyStride;
      PackKeys(static_cast<const T*>(sequence_.layer.k_pages) + offset, params_.strides.token, next - key, head_dim_,
               k + to);
      finite &= PackKeys(static_cast<const T*>(sequence_.layer.v_pages) + offset, params_.strides.token, next - key,
                         head_dim_, v + to);
      key = next;
    }
    return finite;
  }

  const PagedParams& params_;
  const PagedSequence& sequence_;
  const int64_t head_dim_, group_, first_head_, head_offset_;
  const int page_shift_;
  const float value_scale_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_KERNELS_CPU_PAGED_TENSORS_INL_H_
