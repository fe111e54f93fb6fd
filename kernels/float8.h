// fp8 e4m3 storage and its conversions to and from float, without hardware.
#ifndef TESSERA_KERNELS_FLOAT8_H_
#define TESSERA_KERNELS_FLOAT8_H_

#include <bit>
#include <cstdint>

namespace tessera {

// 1 sign, 4 exponent (bias 7), 3 fraction bits; no infinity, NaN where all seven lower bits are set (the "FN" form of
// the OCP's 8-bit formats).
struct Float8 {
  uint8_t bits = 0;
};

inline constexpr float kLargestFloat8 = 448.0f;

constexpr float ToFloat(Float8 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x80u) << 24;
  const uint32_t magnitude = value.bits & 0x7fu;
  if (magnitude == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (magnitude >= 0x08u) return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
  // Zero or subnormal: units of 2^-9, exact in float.
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-9f));
}

// To nearest even. What is too large, infinity too, becomes the largest value; NaN stays NaN.
constexpr Float8 ToFloat8(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint8_t sign = static_cast<uint8_t>(bits >> 24 & 0x80u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint8_t result = 0;
  if (magnitude > 0x7f800000u) {
    result = 0x7fu;
  } else if (magnitude >= std::bit_cast<uint32_t>(kLargestFloat8)) {
    result = 0x7eu;
  } else if (magnitude >= 0x3c800000u) {  // 2^-6, the smallest normal
    const uint32_t rebased = magnitude - (120u << 23);
    result = static_cast<uint8_t>((rebased + 0x7ffffu + (rebased >> 20 & 1u)) >> 20);
  } else {
    // Subnormal: adding 2^14 aligns the last fraction bit to 2^-9, so that float addition does the rounding.
    const float aligned = std::bit_cast<float>(magnitude) + 0x1p14f;
    result = static_cast<uint8_t>(std::bit_cast<uint32_t>(aligned) - std::bit_cast<uint32_t>(0x1p14f));
  }
  return {static_cast<uint8_t>(sign | result)};
}

}  // namespace tessera

#endif  // TESSERA_KERNELS_FLOAT8_H_
