// exp2 for softmax weights.
#if defined(TESSERA_KERNELS_CPU_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_CPU_EXP2_INL_H_
#undef TESSERA_KERNELS_CPU_EXP2_INL_H_
#else
#define TESSERA_KERNELS_CPU_EXP2_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Arguments of WeightExp2 at or below this give exactly 0: 2^-125 is out of float's reach of any sum that holds a 1.
inline constexpr float kZeroBelow = -125.0f;

// 2^(x * factor) for x * factor <= 0. Exactly 1 at 0; exactly 0 where x <= cutoff, -inf included; NaN stays NaN. The
// product is rounded once, inside the reduction, not before it. Error below 1.5 ulp.
// REQUIRES: factor >= 0, cutoff >= kZeroBelow / factor, cutoff finite.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V WeightExp2(D d, V x, V factor, V cutoff) {
  const hn::RebindToSigned<D> di;
  // Adding 1.5 * 2^23 + 127 leaves n + 127, n the nearest integer, in the low bits of the sum: shifted into the
  // exponent field, that is 2^n.
  const V magic = hn::Set(d, 12583039.0f);
  const V shifted = hn::MulAdd(x, factor, magic);
  const V n = hn::Sub(shifted, magic);
  const V r = hn::MulSub(x, factor, n);  // -0.5 to 0.5
  // Minimax in relative error (2.6e-9) over [-0.5, 0.5] with the constant term held at 1: a row whose maximum stays is
  // then rescaled by exactly 1.
  V p = hn::Set(d, 1.5594678e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3406643e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 9.6176928e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.5503104e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 2.4022652e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 6.9314724e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  // A product, not an addition to the exponent of p: whatever the bits of a NaN x put into `power`, p is NaN, too.
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  return hn::IfThenZeroElse(hn::Le(x, cutoff), hn::Mul(p, power));
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_KERNELS_CPU_EXP2_INL_H_
