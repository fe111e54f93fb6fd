// Online softmax of one panel against one tile of keys.
#if defined(TESSERA_KERNELS_CPU_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_CPU_SOFTMAX_INL_H_
#undef TESSERA_KERNELS_CPU_SOFTMAX_INL_H_
#else
#define TESSERA_KERNELS_CPU_SOFTMAX_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/exp2-inl.h"
#include "kernels/cpu/register_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kLog2E = 1.44269504088896341f;

// From products q.k to weights. The sign of the scale is in Q (see PackQueries), so that a larger score is always a
// larger logit; its magnitude is applied inside exp2, to the difference from the row's maximum.
struct ScoreScale {
  float cap_in = 0;  // softcap: score = cap_out * tanh(cap_in * product); off where cap_out == 0
  float cap_out = 0;
  float logit = 1;     // logit = logit * score, >= 0
  float exponent = 0;  // logit * log2(e)
  float cutoff = 0;    // score differences at or below it weigh nothing
};

inline ScoreScale MakeScoreScale(float scale, float softcap) {
  // Factors beyond float's range are held at its end: 0 times an infinite factor would be NaN.
  constexpr float kLargest = std::numeric_limits<float>::max();
  ScoreScale result;
  const float magnitude = scale < 0 ? -scale : scale;
  if (softcap > 0) {
    result.cap_in = std::min(magnitude / softcap, kLargest);
    result.cap_out = softcap;
  } else if (magnitude > 0) {
    result.logit = magnitude;
  }  // a scale of 0 has made all products 0 already: any factor will do
  result.exponent = std::min(result.logit * kLog2E, kLargest);
  result.cutoff = std::max(kZeroBelow / result.exponent, std::numeric_limits<float>::lowest());
  return result;
}

// Turns scores [keys, panel], keys first_key to end_key - 1, into weights relative to the rows' new maxima; updates
// row_max and row_sum [panel] and gives the factor by which the rows' earlier outputs shrink, rescale [panel].
// With kMasked, keys that a row does not see get the weight 0, whatever their scores.
template <int kVectors, bool kMasked>
HWY_INLINE void UpdateSoftmax(const ScoreScale& scale, int64_t first_key, int64_t end_key, VisibleKeys visible,
                              float* HWY_RESTRICT scores, float* HWY_RESTRICT row_max, float* HWY_RESTRICT row_sum,
                              float* HWY_RESTRICT rescale) {
  const RowTag d;
  constexpr int64_t kPanel = kVectors * kLanes;
  const RowVec minus_infinity = hn::Set(d, -kInfinity);
  RowVec max[kVectors];
  for (int v = 0; v < kVectors; ++v) max[v] = minus_infinity;
  for (int64_t key = first_key; key < end_key; ++key) {
    for (int v = 0; v < kVectors; ++v) {
      float* at = scores + key * kPanel + v * kLanes;
      RowVec score = hn::Load(d, at);
      if (scale.cap_out > 0) {
        score = hn::Mul(hn::Set(d, scale.cap_out), hn::Tanh(d, hn::Mul(score, hn::Set(d, scale.cap_in))));
      }
      if constexpr (kMasked) {
        const RowVec index = hn::Set(d, static_cast<float>(key));
        const auto seen = hn::And(hn::Ge(index, hn::Load(d, visible.begin + v * kLanes)),
                                  hn::Lt(index, hn::Load(d, visible.end + v * kLanes)));
        score = hn::IfThenElse(seen, score, minus_infinity);
      }
      if (kMasked || scale.cap_out > 0) hn::Store(score, d, at);
      max[v] = hn::Max(max[v], score);
    }
  }

  const RowVec exponent = hn::Set(d, scale.exponent);
  const RowVec cutoff = hn::Set(d, scale.cutoff);
  RowVec base[kVectors];
  RowVec sum[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const RowVec before = hn::Load(d, row_max + v * kLanes);
    const RowVec after = hn::Max(before, max[v]);
    hn::Store(after, d, row_max + v * kLanes);
    // A row that has seen no key yet: its scores are -inf, and -inf - 0 weighs nothing, where -inf - -inf is NaN.
    base[v] = hn::IfThenZeroElse(hn::Eq(after, minus_infinity), after);
    const RowVec shrink = WeightExp2(d, hn::Sub(before, base[v]), exponent, cutoff);
    hn::Store(shrink, d, rescale + v * kLanes);
    sum[v] = hn::Zero(d);
  }
  for (int64_t key = first_key; key < end_key; ++key) {
    for (int v = 0; v < kVectors; ++v) {
      float* at = scores + key * kPanel + v * kLanes;
      const RowVec weight = WeightExp2(d, hn::Sub(hn::Load(d, at), base[v]), exponent, cutoff);
      hn::Store(weight, d, at);
      sum[v] = hn::Add(sum[v], weight);
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    float* at = row_sum + v * kLanes;
    hn::Store(hn::MulAdd(hn::Load(d, at), hn::Load(d, rescale + v * kLanes), sum[v]), d, at);
  }
}

// Natural logarithm of the rows' sums of exp(logit), and the factor that divides their outputs by the sum: 0 for rows
// that saw no key.
HWY_INLINE void FinishSoftmax(const ScoreScale& scale, int64_t rows, const float* HWY_RESTRICT row_max,
                              const float* HWY_RESTRICT row_sum, float* HWY_RESTRICT lse, float* HWY_RESTRICT divide) {
  const RowTag d;
  for (int64_t row = 0; row < rows; row += kLanes) {
    const RowVec sum = hn::Load(d, row_sum + row);
    const auto unseen = hn::Eq(sum, hn::Zero(d));
    hn::Store(hn::IfThenZeroElse(unseen, hn::Div(hn::Set(d, 1.0f), sum)), d, divide + row);
    const RowVec logarithm = hn::MulAdd(hn::Load(d, row_max + row), hn::Set(d, scale.logit), hn::Log(d, sum));
    const RowVec known = hn::IfThenElse(hn::IsNaN(sum), sum, logarithm);
    hn::Store(hn::IfThenElse(unseen, hn::Set(d, -kInfinity), known), d, lse + row);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_KERNELS_CPU_SOFTMAX_INL_H_
