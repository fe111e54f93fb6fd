// Row-major matrix products in register blocks.
#if defined(TESSERA_KERNELS_STANDARD_ROW_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_STANDARD_ROW_PRODUCT_INL_H_
#undef TESSERA_KERNELS_STANDARD_ROW_PRODUCT_INL_H_
#else
#define TESSERA_KERNELS_STANDARD_ROW_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
inline constexpr int64_t kFloats = hn::MaxLanes(FloatTag());

// A register block: rows of the left factor x columns of the right one. 8 x 2 vectors fit 32 registers, 4 x 2 fit 16.
inline constexpr int64_t kColumns = 2 * kFloats;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
inline constexpr int64_t kRows = 8;
#else
inline constexpr int64_t kRows = 4;
#endif

// c [kBlockHeight, kColumns] += a [kBlockHeight, depth] b [depth, kColumns]; strides in floats.
template <int64_t kBlockHeight>
HWY_INLINE void RowProductBlock(const float* HWY_RESTRICT a, int64_t a_stride, const float* HWY_RESTRICT b,
                                int64_t b_stride, int64_t depth, float* HWY_RESTRICT c, int64_t c_stride) {
  const FloatTag d;
  hn::Vec<FloatTag> sum[kBlockHeight][2];
  for (int64_t i = 0; i < kBlockHeight; ++i) {
    for (int64_t j = 0; j < 2; ++j) sum[i][j] = hn::LoadU(d, c + i * c_stride + j * kFloats);
  }
  for (int64_t t = 0; t < depth; ++t) {
    const auto right0 = hn::LoadU(d, b + t * b_stride);
    const auto right1 = hn::LoadU(d, b + t * b_stride + kFloats);
    for (int64_t i = 0; i < kBlockHeight; ++i) {
      const auto left = hn::Set(d, a[i * a_stride + t]);
      sum[i][0] = hn::MulAdd(left, right0, sum[i][0]);
      sum[i][1] = hn::MulAdd(left, right1, sum[i][1]);
    }
  }
  for (int64_t i = 0; i < kBlockHeight; ++i) {
    for (int64_t j = 0; j < 2; ++j) hn::StoreU(sum[i][j], d, c + i * c_stride + j * kFloats);
  }
}

// The same for `rows` rows, 1 to kRows.
HWY_INLINE void RowProduct(int64_t rows, const float* HWY_RESTRICT a, int64_t a_stride, const float* HWY_RESTRICT b,
                           int64_t b_stride, int64_t depth, float* HWY_RESTRICT c, int64_t c_stride) {
  if (rows == kRows) return RowProductBlock<kRows>(a, a_stride, b, b_stride, depth, c, c_stride);
  for (int64_t i = 0; i < rows; ++i) {
    RowProductBlock<1>(a + i * a_stride, a_stride, b, b_stride, depth, c + i * c_stride, c_stride);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_KERNELS_STANDARD_ROW_PRODUCT_INL_H_
