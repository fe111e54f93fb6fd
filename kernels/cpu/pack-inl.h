// Moves tensors between the caller's layout and the layouts of the micro-kernels, converting to and from float on the
// way.
#if defined(TESSERA_KERNELS_CPU_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_CPU_PACK_INL_H_
#undef TESSERA_KERNELS_CPU_PACK_INL_H_
#else
#define TESSERA_KERNELS_CPU_PACK_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/attention.h"
#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/register_block-inl.h"
#include "kernels/cpu/tile_shape.h"

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Four floats, of which head_dim is a multiple; one where the target has no vectors.
using QuadTag = hn::CappedTag<float, 4>;
using QuadVec = hn::Vec<QuadTag>;
inline constexpr int64_t kQuad = hn::MaxLanes(QuadTag());

// Transposes kQuad vectors in place.
HWY_INLINE void Transpose(QuadVec (&rows)[kQuad]) {
#if HWY_TARGET == HWY_SCALAR
  (void)rows;
#else
  const QuadTag d;
  const hn::Repartition<double, QuadTag> pairs;
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, rows[0], rows[1]));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, rows[2], rows[3]));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[0], rows[1]));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[2], rows[3]));
  rows[0] = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
  rows[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
  rows[2] = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
  rows[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
#endif
}

// The rows of one key head: row r is query head first_head + r % group of token r / group.
struct StackedRows {
  Strides strides;
  int64_t first_head;
  int64_t group;

  int64_t Offset(int64_t row) const { return row / group * strides.token + (first_head + row % group) * strides.head; }
};

// panel [head_dim, stride] column by column from rows first_row .. first_row + rows - 1 of `q`, times `factor`; the
// remaining columns up to `stride` become 0.
template <typename T>
HWY_INLINE void PackQueries(const T* q, const StackedRows& layout, int64_t first_row, int64_t rows, int64_t head_dim,
                            float factor, int64_t stride, float* HWY_RESTRICT panel) {
  const QuadTag d;
  const QuadVec scale = hn::Set(d, factor);
  for (int64_t column = 0; column < stride; column += kQuad) {
    const T* from[kQuad];
    for (int64_t i = 0; i < kQuad; ++i) {
      from[i] = column + i < rows ? q + layout.Offset(first_row + column + i) : nullptr;
    }
    for (int64_t c = 0; c < head_dim; c += kQuad) {
      QuadVec block[kQuad];
      for (int64_t i = 0; i < kQuad; ++i) {
        block[i] = from[i] == nullptr ? hn::Zero(d) : hn::Mul(scale, LoadFloats(d, from[i] + c));
      }
      Transpose(block);
      for (int64_t i = 0; i < kQuad; ++i) hn::Store(block[i], d, panel + (c + i) * stride + column);
    }
  }
}

// The way back: rows first_row .. first_row + rows - 1 of `o` from the columns of panel [head_dim, stride], each times
// its factor in `divide` [stride].
template <typename T>
HWY_INLINE void UnpackOutputs(const float* HWY_RESTRICT panel, const float* HWY_RESTRICT divide, int64_t stride,
                              const StackedRows& layout, int64_t first_row, int64_t rows, int64_t head_dim, T* o) {
  const QuadTag d;
  for (int64_t column = 0; column < rows; column += kQuad) {
    const int64_t count = std::min(kQuad, rows - column);
    T* to[kQuad] = {};
    for (int64_t i = 0; i < count; ++i) to[i] = o + layout.Offset(first_row + column + i);
    const QuadVec factor = hn::Load(d, divide + column);
    for (int64_t c = 0; c < head_dim; c += kQuad) {
      QuadVec block[kQuad];
      for (int64_t i = 0; i < kQuad; ++i) {
        block[i] = hn::Mul(factor, hn::Load(d, panel + (c + i) * stride + column));
      }
      Transpose(block);
      for (int64_t i = 0; i < count; ++i) StoreFloats(d, block[i], to[i] + c);
    }
  }
}

// tile [keys, kKeyStride] from `keys` rows of K or V. Returns whether all of it is finite.
template <typename T>
HWY_INLINE bool PackKeys(const T* from, int64_t token_stride, int64_t keys, int64_t head_dim,
                         float* HWY_RESTRICT tile) {
  const hn::CappedTag<float, 8> d;  // head_dim is a multiple of 8
  const auto largest = hn::Set(d, std::numeric_limits<float>::max());
  constexpr int64_t kStep = hn::MaxLanes(d);
  auto all_finite = hn::Eq(hn::Zero(d), hn::Zero(d));
  for (int64_t key = 0; key < keys; ++key) {
    const T* row = from + key * token_stride;
    float* to = tile + key * kKeyStride;
    for (int64_t c = 0; c < head_dim; c += kStep) {
      const auto value = LoadFloats(d, row + c);
      all_finite = hn::And(all_finite, hn::Le(hn::Abs(value), largest));
      hn::Store(value, d, to + c);
    }
  }
  return hn::AllTrue(d, all_finite);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_KERNELS_CPU_PACK_INL_H_
