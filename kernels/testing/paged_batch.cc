#include "kernels/testing/paged_batch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/cache_dtype_dispatch.h"

namespace tessera {
namespace {

constexpr std::byte kPoison{0xff};  // all ones: NaN in every type
constexpr int64_t kPadding = 16;    // elements

std::vector<SequenceLengths> WithoutAppends(absl::Span<const PagedLengths> lengths) {
  std::vector<SequenceLengths> result;
  for (const PagedLengths& n : lengths) result.push_back({n.q_len, n.kv_len});
  return result;
}

Strides StridesOf(const PageShape& shape, const AttentionParams& attention) {
  switch (shape.layout) {
    case PageLayout::kTokensOuter:
      return Strides::Packed(attention.kv_heads, attention.head_dim);
    case PageLayout::kHeadsOuter:
      return {attention.head_dim, shape.page_tokens * attention.head_dim};
    case PageLayout::kPadded:
      return Strides::Packed(attention.kv_heads, attention.head_dim + kPadding);
  }
  return {};
}

float Decode(CacheDType dtype, float value) {
  return DispatchCacheDType(dtype, [value](auto element) {
    if constexpr (sizeof(element) == 1) return ToFloat(ToFloat8(value));
    return value;  // a value of the call's own dtype is stored as it is
  });
}

}  // namespace

PagedBatch::PagedBatch(const AttentionParams& attention, const PageShape& shape, absl::Span<const PagedLengths> lengths,
                       uint64_t seed, float deviation)
    : params_{.attention = attention,
              .cache_dtype = shape.cache_dtype,
              .page_tokens = shape.page_tokens,
              .strides = StridesOf(shape, attention)},
      lengths_(lengths.begin(), lengths.end()),
      contiguous_(attention, WithoutAppends(lengths), seed, TensorLayout::kPacked, deviation) {
  std::mt19937_64 random(seed);
  const int64_t row = shape.layout == PageLayout::kPadded ? attention.head_dim + kPadding : attention.head_dim;
  value_offset_ = shape.page_tokens * attention.kv_heads * row;
  params_.page_stride = 2 * value_offset_ + kPadding;  // K, then V
  for (int64_t head = 0; head < attention.kv_heads; ++head) {
    const bool fp8 = shape.cache_dtype == CacheDType::kFloat8;
    k_scales_.push_back(fp8 ? std::ldexp(1.0f, static_cast<int>(random() % 5) - 4) : 1.0f);
    v_scales_.push_back(fp8 ? std::ldexp(1.0f, static_cast<int>(random() % 5) - 4) : 1.0f);
  }

  const auto pages_for = [&](const PagedLengths& n) { return (n.kv_len + shape.page_tokens - 1) / shape.page_tokens; };
  int64_t needed = 0;
  for (const PagedLengths& n : lengths_) needed += pages_for(n);
  std::vector<int32_t> pool(2 * needed + 1);
  std::iota(pool.begin(), pool.end(), 0);
  std::shuffle(pool.begin(), pool.end(), random);
  for (const PagedLengths& n : lengths_) {
    tables_.emplace_back(pool.end() - pages_for(n), pool.end());
    pool.resize(pool.size() - tables_.back().size());
  }

  before_.assign((2 * needed + 1) * params_.page_stride * SizeOf(shape.cache_dtype), kPoison);
  after_ = before_;
  for (size_t i = 0; i < lengths_.size(); ++i) {
    for (int64_t token = 0; token < lengths_[i].kv_len; ++token) {
      for (int64_t head = 0; head < attention.kv_heads; ++head) {
        Quantize(i, token, head);
        SetRow(i, token, head);
      }
    }
  }
  memory_ = before_;
}

int64_t PagedBatch::Offset(size_t i, int64_t token, int64_t head) const {
  return SizeOf(params_.cache_dtype) *
         (tables_[i][token / params_.page_tokens] * params_.page_stride +
          token % params_.page_tokens * params_.strides.token + head * params_.strides.head);
}

// Makes a contiguous row one that the pages can hold exactly.
void PagedBatch::Quantize(size_t i, int64_t token, int64_t head) {
  TestSequence& sequence = contiguous_[i];
  for (int64_t c = 0; c < params_.attention.head_dim; ++c) {
    const float k = sequence.k.Get(token, head, c) / k_scales_[head];
    const float v = sequence.v.Get(token, head, c) / v_scales_[head];
    sequence.k.Set(token, head, c, Decode(params_.cache_dtype, k) * k_scales_[head]);
    sequence.v.Set(token, head, c, Decode(params_.cache_dtype, v) * v_scales_[head]);
  }
}

void PagedBatch::SetRow(size_t i, int64_t token, int64_t head) {
  const bool appended = token >= lengths_[i].kv_len - lengths_[i].append_len;
  for (int64_t c = 0; c < params_.attention.head_dim; ++c) {
    const float k = contiguous_[i].k.Get(token, head, c);
    const float v = contiguous_[i].v.Get(token, head, c);
    Encode(i, token, head, c, k, v, after_);
    if (!appended) Encode(i, token, head, c, k, v, before_);
  }
}

void PagedBatch::Encode(size_t i, int64_t token, int64_t head, int64_t c, float k, float v,
                        std::vector<std::byte>& memory) const {
  DispatchCacheDType(params_.cache_dtype, [&](auto element) {
    using T = decltype(element);
    const auto store = [&](float value, float scale, int64_t elements) {
      T stored;
      if constexpr (sizeof(T) == 1) {
        stored = ToFloat8(value / scale);
      } else {
        stored = FromFloat<T>(value);
      }
      std::memcpy(memory.data() + Offset(i, token, head) + elements * static_cast<int64_t>(sizeof(T)), &stored,
                  sizeof(T));
    };
    store(k, k_scales_[head], c);
    store(v, v_scales_[head], value_offset_ + c);
  });
}

void PagedBatch::SetKeyRow(size_t i, int64_t token, int64_t head, float value) {
  contiguous_[i].k.SetRow(token, head, value);
  SetRow(i, token, head);
  memory_ = before_;
}

void PagedBatch::SetValueRow(size_t i, int64_t token, int64_t head, float value) {
  contiguous_[i].v.SetRow(token, head, value);
  SetRow(i, token, head);
  memory_ = before_;
}

PagedSequence PagedBatch::View(size_t i, bool with_lse) {
  const PagedLengths& n = lengths_[i];
  const SequenceView view = contiguous_.View(i, with_lse);
  const int64_t skipped = (n.kv_len - n.append_len) * SizeOf(params_.attention.dtype);
  const bool fp8 = params_.cache_dtype == CacheDType::kFloat8;
  return {.q_len = n.q_len,
          .kv_len = n.kv_len,
          .append_len = n.append_len,
          .layer = {.k_pages = memory_.data(),
                    .v_pages = memory_.data() + value_offset_ * SizeOf(params_.cache_dtype),
                    .k_scales = fp8 ? k_scales_.data() : nullptr,
                    .v_scales = fp8 ? v_scales_.data() : nullptr},
          .pages = tables_[i],
          .q = view.q,
          .k = static_cast<const std::byte*>(view.k) + skipped * view.k_strides.token,
          .v = static_cast<const std::byte*>(view.v) + skipped * view.v_strides.token,
          .o = view.o,
          .lse = view.lse,
          .q_strides = view.q_strides,
          .k_strides = view.k_strides,
          .v_strides = view.v_strides,
          .o_strides = view.o_strides,
          .lse_strides = view.lse_strides};
}

std::vector<PagedSequence> PagedBatch::Views(bool with_lse) {
  std::vector<PagedSequence> views;
  for (size_t i = 0; i < size(); ++i) views.push_back(View(i, with_lse));
  return views;
}

}  // namespace tessera
