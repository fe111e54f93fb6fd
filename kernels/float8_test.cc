#include "kernels/float8.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace tessera {
namespace {

float Value(int bits) { return ToFloat(Float8{static_cast<uint8_t>(bits)}); }

TEST(Float8Test, KnownValues) {
  EXPECT_EQ(Value(0x00), 0.0f);
  EXPECT_TRUE(std::signbit(Value(0x80)));
  EXPECT_EQ(Value(0x01), 0x1p-9f) << "the smallest subnormal";
  EXPECT_EQ(Value(0x07), 7 * 0x1p-9f);
  EXPECT_EQ(Value(0x08), 0x1p-6f) << "the smallest normal";
  EXPECT_EQ(Value(0x38), 1.0f);
  EXPECT_EQ(Value(0xb9), -1.125f);
  EXPECT_EQ(Value(0x7e), kLargestFloat8);
  EXPECT_TRUE(std::isnan(Value(0x7f)));
  EXPECT_TRUE(std::isnan(Value(0xff)));
}

TEST(Float8Test, ComesBack) {
  for (int bits = 0; bits < 256; ++bits) {
    if ((bits & 0x7f) == 0x7f) continue;
    EXPECT_EQ(ToFloat8(Value(bits)).bits, bits);
  }
}

// The nearest of all values, by searching them; of two equally near ones the even.
uint8_t Nearest(float value) {
  int best = 0;
  for (int bits = 1; bits < 0x7f; ++bits) {
    const float distance = std::abs(Value(bits) - value);
    const float least = std::abs(Value(best) - value);
    if (distance < least || (distance == least && bits % 2 == 0)) best = bits;
  }
  return static_cast<uint8_t>(best);
}

TEST(Float8Test, RoundsToTheNearestEven) {
  for (int bits = 0; bits < 0x7e; ++bits) {
    const float low = Value(bits);
    const float high = Value(bits + 1);
    const float middle = low + (high - low) / 2;
    for (const float value : {low, std::nextafter(middle, low), middle, std::nextafter(middle, high)}) {
      EXPECT_EQ(ToFloat8(value).bits, Nearest(value)) << value;
      EXPECT_EQ(ToFloat8(-value).bits, Nearest(value) | 0x80) << -value;
    }
  }
}

TEST(Float8Test, WhatIsTooLargeBecomesTheLargest) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {449.0f, 463.0f, 465.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(ToFloat8(value).bits, 0x7e);
    EXPECT_EQ(ToFloat8(-value).bits, 0xfe);
  }
  EXPECT_TRUE(std::isnan(ToFloat(ToFloat8(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace tessera
