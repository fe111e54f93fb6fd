#include "client/cpp/load/element_format.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/random/seed.h"

namespace tessera::load {
namespace {

uint16_t Bits(v1::DataType dtype, float value) {
  std::byte bytes[2] = {std::byte{0xaa}, std::byte{0xaa}};
  StoreElement(dtype, value, 0, absl::MakeSpan(bytes));
  return static_cast<uint16_t>(std::to_integer<int>(bytes[0]) | (std::to_integer<int>(bytes[1]) << 8));
}

float FromBits(v1::DataType dtype, int bits) {
  const std::byte bytes[2] = {std::byte(bits & 0xff), std::byte(bits >> 8)};
  return LoadElement(dtype, absl::MakeConstSpan(bytes), 0);
}

TEST(ElementFormatTest, KnownFloat16) {
  constexpr auto kType = v1::DATA_TYPE_FLOAT16;
  EXPECT_EQ(Bits(kType, 0.0f), 0x0000);
  EXPECT_EQ(Bits(kType, -0.0f), 0x8000);
  EXPECT_EQ(Bits(kType, 1.0f), 0x3c00);
  EXPECT_EQ(Bits(kType, -2.0f), 0xc000);
  EXPECT_EQ(Bits(kType, 65504.0f), 0x7bff);
  EXPECT_EQ(Bits(kType, std::ldexp(1.0f, -24)), 0x0001);
  EXPECT_EQ(Bits(kType, std::ldexp(1.0f, -14)), 0x0400);
  EXPECT_EQ(Bits(kType, std::ldexp(1023.5f, -24)), 0x0400);          // carries out of the subnormals
  EXPECT_EQ(Bits(kType, 1.0f + std::ldexp(1.0f, -11)), 0x3c00);      // a tie goes to even
  EXPECT_EQ(Bits(kType, 1.0f + 3 * std::ldexp(1.0f, -11)), 0x3c02);  // the next tie as well
}

TEST(ElementFormatTest, KnownBFloat16) {
  constexpr auto kType = v1::DATA_TYPE_BFLOAT16;
  EXPECT_EQ(Bits(kType, 1.0f), 0x3f80);
  EXPECT_EQ(Bits(kType, -2.0f), 0xc000);
  EXPECT_EQ(Bits(kType, 1.0f + std::ldexp(1.0f, -8)), 0x3f80);  // a tie goes to even
  EXPECT_EQ(Bits(kType, 1.0f + 3 * std::ldexp(1.0f, -8)), 0x3f82);
}

TEST(ElementFormatTest, EveryFiniteValueSurvives) {
  for (const v1::DataType dtype : {v1::DATA_TYPE_FLOAT16, v1::DATA_TYPE_BFLOAT16}) {
    for (int bits = 0; bits < 0x10000; ++bits) {
      const float value = FromBits(dtype, bits);
      if (std::isfinite(value)) {
        ASSERT_EQ(Bits(dtype, value), bits) << ElementName(dtype);
      }
    }
  }
  EXPECT_TRUE(std::isinf(FromBits(v1::DATA_TYPE_FLOAT16, 0x7c00)));
  EXPECT_TRUE(std::isnan(FromBits(v1::DATA_TYPE_FLOAT16, 0x7e00)));
}

TEST(ElementFormatTest, RoundsToTheNearest) {
  const uint64_t seed = tessera::RandomSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 10000; ++i) {
    const float value = normal(random);
    for (const auto& [dtype, digits] : {std::pair{v1::DATA_TYPE_FLOAT16, 11}, {v1::DATA_TYPE_BFLOAT16, 8}}) {
      const float stored = FromBits(dtype, Bits(dtype, value));
      ASSERT_LE(std::fabs(stored - value), std::ldexp(std::fabs(value), -digits) + std::ldexp(1.0f, -25));
    }
  }
}

TEST(ElementFormatTest, WritesOnlyItsOwnElement) {
  std::vector<std::byte> tensor(12, std::byte{0x5a});
  StoreElement(v1::DATA_TYPE_FLOAT32, 1.5f, 1, absl::MakeSpan(tensor));
  EXPECT_EQ(LoadElement(v1::DATA_TYPE_FLOAT32, tensor, 1), 1.5f);
  for (const size_t i : {0, 3, 8, 11}) EXPECT_EQ(tensor[i], std::byte{0x5a});
}

}  // namespace
}  // namespace tessera::load
