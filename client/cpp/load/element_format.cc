#include "client/cpp/load/element_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace tessera::load {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied as they lie in memory");

uint16_t ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

uint16_t ToFloat16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000u : 0u;
  const float magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  // Scaling by a power of two is exact, so nearbyint does the only rounding, to nearest even.
  int exponent = 0;
  std::frexp(magnitude, &exponent);              // magnitude in [2^(exponent - 1), 2^exponent)
  const int ulp = std::max(exponent - 11, -24);  // log2 of the distance between neighbours
  const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -ulp)));
  // `steps` runs to 2048; a carry out of the significand raises the exponent by itself.
  return static_cast<uint16_t>(sign | (static_cast<uint32_t>(ulp + 24) * 1024u + steps));
}

float FromFloat16(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int significand = bits & 0x3ff;
  float magnitude;
  if (exponent == 0x1f) {
    magnitude = significand == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(significand), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(significand + 1024), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace

absl::string_view ElementName(v1::DataType dtype) {
  switch (dtype) {
    case v1::DATA_TYPE_FLOAT32:
      return "fp32";
    case v1::DATA_TYPE_FLOAT16:
      return "fp16";
    case v1::DATA_TYPE_BFLOAT16:
      return "bf16";
    default:
      return "unspecified";
  }
}

void StoreElement(v1::DataType dtype, float value, size_t index, absl::Span<std::byte> tensor) {
  if (dtype == v1::DATA_TYPE_FLOAT32) {
    std::memcpy(tensor.data() + index * sizeof(value), &value, sizeof(value));
    return;
  }
  const uint16_t bits = dtype == v1::DATA_TYPE_FLOAT16 ? ToFloat16(value) : ToBFloat16(value);
  std::memcpy(tensor.data() + index * sizeof(bits), &bits, sizeof(bits));
}

float LoadElement(v1::DataType dtype, absl::Span<const std::byte> tensor, size_t index) {
  if (dtype == v1::DATA_TYPE_FLOAT32) {
    float value;
    std::memcpy(&value, tensor.data() + index * sizeof(value), sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, tensor.data() + index * sizeof(bits), sizeof(bits));
  return dtype == v1::DATA_TYPE_FLOAT16 ? FromFloat16(bits) : std::bit_cast<float>(uint32_t{bits} << 16);
}

}  // namespace tessera::load
