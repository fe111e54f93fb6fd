#include "kernels/half.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/random/seed.h"

namespace tessera {
namespace {

// Nearest of all 2^16 values, ties to the even bit pattern, by search: the definition of rounding.
template <typename T>
class Rounding {
 public:
  Rounding() {
    for (uint32_t bits = 0; bits < 0x8000; ++bits) {
      const float value = ToFloat(T{static_cast<uint16_t>(bits)});
      if (std::isinf(value)) {
        infinity_ = bits;
        break;
      }
      values_.push_back(value);
    }
  }

  uint16_t Round(float value) const {
    const double magnitude = std::abs(static_cast<double>(value));
    const auto above = std::upper_bound(values_.begin(), values_.end(), magnitude);
    const size_t low = above - values_.begin() - 1;
    // Past the largest finite value the next one would be as far again.
    const double high_value = low + 1 < values_.size() ? values_[low + 1] : 2 * values_[low] - values_[low - 1];
    const double to_low = magnitude - values_[low];
    const double to_high = high_value - magnitude;
    uint32_t bits = low;
    if (to_high < to_low || (to_high == to_low && low % 2 == 1)) ++bits;
    bits = std::min(bits, infinity_);
    return static_cast<uint16_t>(bits | (std::signbit(value) ? 0x8000u : 0u));
  }

 private:
  std::vector<double> values_;
  uint32_t infinity_ = 0;
};

template <typename T>
class HalfTest : public ::testing::Test {};
using Types = ::testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(HalfTest, Types);

TYPED_TEST(HalfTest, EveryValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const TypeParam value{static_cast<uint16_t>(bits)};
    const float wide = ToFloat(value);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(ToFloat(FromFloat<TypeParam>(wide)))) << bits;
    } else {
      ASSERT_EQ(FromFloat<TypeParam>(wide).bits, bits);
    }
  }
}

TYPED_TEST(HalfTest, RoundsToNearestEven) {
  const Rounding<TypeParam> rounding;
  std::mt19937_64 random(RandomSeed());
  for (int i = 0; i < 200000; ++i) {
    uint32_t bits = static_cast<uint32_t>(random());
    // Half of the trials sit in fp16's exponent range, a third of those on ties.
    if (i % 2 == 0) bits = (bits & 0x80ffffffu) | (100u + bits % 45u) << 23;
    if (i % 6 == 0) bits = (bits & 0xffffe000u) | 0x1000u;
    if (i % 6 == 2) bits = (bits & 0xffff0000u) | 0x8000u;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    if (std::isnan(value) || std::isinf(value)) continue;
    ASSERT_EQ(FromFloat<TypeParam>(value).bits, rounding.Round(value)) << value;
  }
}

TYPED_TEST(HalfTest, SpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(ToFloat(FromFloat<TypeParam>(infinity)), infinity);
  EXPECT_EQ(ToFloat(FromFloat<TypeParam>(-infinity)), -infinity);
  EXPECT_TRUE(std::signbit(ToFloat(FromFloat<TypeParam>(-0.0f))));
  // NaNs whose payload lies only in the bits that are cut off.
  for (uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0x7fffffffu}) {
    float nan;
    std::memcpy(&nan, &bits, sizeof(nan));
    EXPECT_TRUE(std::isnan(ToFloat(FromFloat<TypeParam>(nan)))) << bits;
  }
}

}  // namespace
}  // namespace tessera
