// Vectors of float to and from memory of any element type: rounding to nearest even, NaN kept, subnormals kept.
// Highway's own conversions round correctly only where the hardware does (F16C), hence the integer versions here.
#if defined(TESSERA_KERNELS_CPU_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_CPU_CONVERT_INL_H_
#undef TESSERA_KERNELS_CPU_CONVERT_INL_H_
#else
#define TESSERA_KERNELS_CPU_CONVERT_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/float8.h"
#include "kernels/half.h"

// Targets whose fp16 conversions are done by hardware.
#undef TESSERA_HARDWARE_HALF
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define TESSERA_HARDWARE_HALF 1
#else
#define TESSERA_HARDWARE_HALF 0
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Lanes(d) elements from `from`, which need not be aligned.
template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const float* HWY_RESTRICT from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const BFloat16* HWY_RESTRICT from) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, &from->bits))));
}

template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const Half* HWY_RESTRICT from) {
#if TESSERA_HARDWARE_HALF
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
#else
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, &from->bits));
  const auto magnitude = hn::And(bits, hn::Set(d32, 0x7fffu));
  const auto sign = hn::ShiftLeft<16>(hn::Xor(bits, magnitude));
  // The exponent is rebased by a product, which handles subnormals too; infinity and NaN get their exponent back.
  const auto scaled = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude)), hn::Set(d, 0x1p112f));
  const auto special =
      hn::Gt(hn::BitCast(hn::RebindToSigned<D>(), magnitude), hn::Set(hn::RebindToSigned<D>(), int32_t{0x7bff}));
  const auto exponent = hn::IfThenElseZero(hn::RebindMask(d32, special), hn::Set(d32, 0x7f800000u));
  return hn::BitCast(d, hn::Or(hn::Or(hn::BitCast(d32, scaled), exponent), sign));
#endif
}

template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const Float8* HWY_RESTRICT from) {
  const hn::Rebind<uint8_t, D> d8;
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d8, &from->bits));
  const auto magnitude = hn::And(bits, hn::Set(d32, 0x7fu));
  const auto sign = hn::ShiftLeft<24>(hn::Xor(bits, magnitude));
  // As for Half; there is no infinity, and one NaN.
  const auto scaled = hn::Mul(hn::BitCast(d, hn::ShiftLeft<20>(magnitude)), hn::Set(d, 0x1p120f));
  const auto nan = hn::IfThenElseZero(hn::Eq(magnitude, hn::Set(d32, 0x7fu)), hn::Set(d32, 0x7fc00000u));
  return hn::BitCast(d, hn::Or(hn::Or(hn::BitCast(d32, scaled), nan), sign));
}

// Stores Lanes(d) elements to `to`, which need not be aligned.
template <class D>
HWY_INLINE void StoreFloats(D d, hn::Vec<D> value, float* HWY_RESTRICT to) {
  hn::StoreU(value, d, to);
}

template <class D>
HWY_INLINE void StoreFloats(D, hn::Vec<D> value, BFloat16* HWY_RESTRICT to) {
  const hn::RebindToUnsigned<D> d32;
  const hn::RebindToSigned<D> di32;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::BitCast(d32, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fffu))));
  const auto quiet_nan = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d32, 0x40u));
  const auto result = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(value)), quiet_nan, rounded);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, result)), d16, &to->bits);
}

template <class D>
HWY_INLINE void StoreFloats(D d, hn::Vec<D> value, Half* HWY_RESTRICT to) {
#if TESSERA_HARDWARE_HALF
  const hn::Rebind<hwy::float16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, value), d16, reinterpret_cast<hwy::float16_t*>(to));
#else
  const hn::RebindToUnsigned<D> d32;
  const hn::RebindToSigned<D> di32;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::BitCast(d32, value);
  const auto magnitude = hn::And(bits, hn::Set(d32, 0x7fffffffu));
  const auto sign = hn::ShiftRight<16>(hn::Xor(bits, magnitude));
  const auto rebased = hn::Sub(magnitude, hn::Set(d32, 112u << 23));
  const auto odd = hn::And(hn::ShiftRight<13>(rebased), hn::Set(d32, 1u));
  const auto normal = hn::ShiftRight<13>(hn::Add(rebased, hn::Add(odd, hn::Set(d32, 0xfffu))));
  // Adding 0.5 aligns the last fraction bit of a subnormal to 2^-24, so that float addition does the rounding.
  const auto aligned = hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f));
  const auto subnormal = hn::Sub(hn::BitCast(d32, aligned), hn::Set(d32, 0x3f000000u));
  const auto quiet_nan = hn::Or(hn::Set(d32, 0x7e00u), hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d32, 0x3ffu)));
  const auto signed_magnitude = hn::BitCast(di32, magnitude);
  const auto is_subnormal = hn::RebindMask(d32, hn::Lt(signed_magnitude, hn::Set(di32, int32_t{0x38800000})));
  const auto is_infinite = hn::RebindMask(d32, hn::Gt(signed_magnitude, hn::Set(di32, int32_t{0x477fefff})));
  const auto is_nan = hn::RebindMask(d32, hn::Gt(signed_magnitude, hn::Set(di32, int32_t{0x7f800000})));
  auto result = hn::IfThenElse(is_subnormal, subnormal, normal);
  result = hn::IfThenElse(is_infinite, hn::Set(d32, 0x7c00u), result);
  result = hn::Or(hn::IfThenElse(is_nan, quiet_nan, result), sign);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, result)), d16, &to->bits);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_KERNELS_CPU_CONVERT_INL_H_
