// fp16 and bf16 storage types and their conversions to and from float, without hardware: round to nearest even, NaN
// stays NaN, subnormals kept.
#ifndef TESSERA_KERNELS_HALF_H_
#define TESSERA_KERNELS_HALF_H_

#include <bit>
#include <cstdint>

namespace tessera {

// IEEE binary16: 1 sign, 5 exponent, 10 fraction bits.
struct Half {
  uint16_t bits = 0;
};

// bfloat16: the upper half of a binary32.
struct BFloat16 {
  uint16_t bits = 0;
};

constexpr float ToFloat(float value) { return value; }

constexpr float ToFloat(BFloat16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

constexpr float ToFloat(Half value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  // Zero or subnormal: units of 2^-24, exact in float.
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f));
}

template <typename T>
constexpr T FromFloat(float value);

template <>
constexpr float FromFloat<float>(float value) {
  return value;
}

template <>
constexpr BFloat16 FromFloat<BFloat16>(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>(bits >> 16 | 0x40u)};  // quiet
  return {static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

template <>
constexpr Half FromFloat<Half>(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint16_t result = 0;
  if (magnitude > 0x7f800000u) {
    result = static_cast<uint16_t>(0x7e00u | (magnitude >> 13 & 0x3ffu));  // quiet
  } else if (magnitude >= 0x477ff000u) {
    result = 0x7c00u;  // 65520 and above round to infinity
  } else if (magnitude >= 0x38800000u) {
    const uint32_t rebased = magnitude - (112u << 23);
    result = static_cast<uint16_t>((rebased + 0xfffu + (rebased >> 13 & 1u)) >> 13);
  } else {
    // Subnormal: adding 0.5 aligns the last fraction bit to 2^-24, so that float addition does the rounding.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    result = static_cast<uint16_t>(std::bit_cast<uint32_t>(aligned) - 0x3f000000u);
  }
  return {static_cast<uint16_t>(sign | result)};
}

}  // namespace tessera

#endif  // TESSERA_KERNELS_HALF_H_
