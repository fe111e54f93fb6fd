// The vector conversions and exp2, on every SIMD target of this machine, against their scalar definitions.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/half.h"
#include "tests/random/seed.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_functions_test.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once for each target.
#include "hwy/highway.h"
#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// All arrays hold a multiple of 64 elements.
inline void LoadAllHalf(const Half* from, size_t count, float* to) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) hn::StoreU(LoadFloats(d, from + i), d, to + i);
}

inline void LoadAllBFloat16(const BFloat16* from, size_t count, float* to) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) hn::StoreU(LoadFloats(d, from + i), d, to + i);
}

inline void StoreAllHalf(const float* from, size_t count, Half* to) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) StoreFloats(d, hn::LoadU(d, from + i), to + i);
}

inline void StoreAllBFloat16(const float* from, size_t count, BFloat16* to) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) StoreFloats(d, hn::LoadU(d, from + i), to + i);
}

inline void Exp2All(const float* from, size_t count, float factor, float cutoff, float* to) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(WeightExp2(d, hn::LoadU(d, from + i), hn::Set(d, factor), hn::Set(d, cutoff)), d, to + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

HWY_EXPORT(LoadAllHalf);
HWY_EXPORT(LoadAllBFloat16);
HWY_EXPORT(StoreAllHalf);
HWY_EXPORT(StoreAllBFloat16);
HWY_EXPORT(Exp2All);

class VectorFunctionsTest : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

bool SameBitsOrBothNaN(float a, float b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0 || (std::isnan(a) && std::isnan(b));
}

template <typename T, typename Load>
void ExpectLoadsEveryValue(const Load& load) {
  std::vector<T> from(1 << 16);
  for (uint32_t bits = 0; bits < from.size(); ++bits) from[bits].bits = static_cast<uint16_t>(bits);
  std::vector<float> to(from.size());
  load(from.data(), from.size(), to.data());
  for (size_t i = 0; i < from.size(); ++i) ASSERT_TRUE(SameBitsOrBothNaN(to[i], ToFloat(from[i]))) << i;
}

TEST_P(VectorFunctionsTest, LoadsEveryHalf) {
  ExpectLoadsEveryValue<Half>([](auto... args) { HWY_DYNAMIC_DISPATCH(LoadAllHalf)(args...); });
}

TEST_P(VectorFunctionsTest, LoadsEveryBFloat16) {
  ExpectLoadsEveryValue<BFloat16>([](auto... args) { HWY_DYNAMIC_DISPATCH(LoadAllBFloat16)(args...); });
}

// Random bit patterns, ties, and the edges of fp16's ranges.
std::vector<float> FloatsToRound() {
  std::mt19937_64 random(RandomSeed());
  std::vector<float> floats;
  for (int i = 0; i < 1 << 18; ++i) {
    uint32_t bits = static_cast<uint32_t>(random());
    if (i % 2 == 0) bits = (bits & 0x80ffffffu) | (100u + bits % 45u) << 23;
    if (i % 6 == 0) bits = (bits & 0xffffe000u) | 0x1000u;
    if (i % 6 == 2) bits = (bits & 0xffff0000u) | 0x8000u;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    floats.push_back(value);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  const float edges[] = {0.0f,       -0.0f,     infinity,  -infinity, std::nanf(""), 65504.0f,
                         65519.9f,   65520.0f,  -65520.0f, 0x1p-14f,  0x1p-24f,      0x1p-25f,
                         0x1.8p-25f, 0x1p-126f, 0x1p-149f, 3.4e38f,   3.3961776e38f};
  std::copy(std::begin(edges), std::end(edges), floats.begin());
  return floats;
}

template <typename T, typename Store>
void ExpectRoundsLikeScalar(const Store& store) {
  const std::vector<float> from = FloatsToRound();
  std::vector<T> to(from.size());
  store(from.data(), from.size(), to.data());
  for (size_t i = 0; i < from.size(); ++i) {
    const T expected = FromFloat<T>(from[i]);
    if (std::isnan(from[i])) {
      ASSERT_TRUE(std::isnan(ToFloat(to[i]))) << i;
    } else {
      ASSERT_EQ(to[i].bits, expected.bits) << from[i];
    }
  }
}

TEST_P(VectorFunctionsTest, RoundsToHalf) {
  ExpectRoundsLikeScalar<Half>([](auto... args) { HWY_DYNAMIC_DISPATCH(StoreAllHalf)(args...); });
}

TEST_P(VectorFunctionsTest, RoundsToBFloat16) {
  ExpectRoundsLikeScalar<BFloat16>([](auto... args) { HWY_DYNAMIC_DISPATCH(StoreAllBFloat16)(args...); });
}

TEST_P(VectorFunctionsTest, Exp2IsWithinOneAndAHalfUlp) {
  constexpr size_t kCount = 1 << 20;
  std::vector<float> from(kCount), to(kCount);
  for (size_t i = 0; i < kCount; ++i) from[i] = -124.0f * static_cast<float>(i) / kCount;
  HWY_DYNAMIC_DISPATCH(Exp2All)(from.data(), kCount, 1.0f, -125.0f, to.data());
  double worst = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const double expected = std::exp2(static_cast<double>(from[i]));
    const double ulp = std::exp2(std::floor(std::log2(expected)) - 23);
    worst = std::max(worst, std::abs(to[i] - expected) / ulp);
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_LT(worst, 1.5);
}

TEST_P(VectorFunctionsTest, Exp2SpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> from(64, 0.0f), to(64);
  from[1] = -infinity;
  from[2] = std::nanf("");
  from[3] = -125.0f;
  from[4] = std::numeric_limits<float>::lowest();
  from[5] = -124.9f;
  HWY_DYNAMIC_DISPATCH(Exp2All)(from.data(), from.size(), 1.0f, -125.0f, to.data());
  EXPECT_EQ(to[0], 1.0f);
  EXPECT_EQ(to[1], 0.0f);
  EXPECT_TRUE(std::isnan(to[2]));
  EXPECT_EQ(to[3], 0.0f);
  EXPECT_EQ(to[4], 0.0f);
  EXPECT_GT(to[5], 0.0f);
  // A factor so small that the cutoff is the lowest float: -inf still weighs nothing.
  HWY_DYNAMIC_DISPATCH(Exp2All)(from.data(), from.size(), 1e-38f, std::numeric_limits<float>::lowest(), to.data());
  EXPECT_EQ(to[1], 0.0f);
  EXPECT_EQ(to[5], 1.0f);
}

TEST_P(VectorFunctionsTest, Exp2KeepsNaNWhateverItsPayload) {
  std::vector<float> from, to;
  for (uint32_t bits : {0x7fc00001u, 0x7fc000ffu, 0x7fc001ffu, 0xffc00001u, 0xffc001ffu, 0x7fffffffu, 0xffffffffu}) {
    for (uint32_t payload = 0; payload < 512; ++payload) from.push_back(std::bit_cast<float>(bits ^ payload));
  }
  to.resize(from.size());
  HWY_DYNAMIC_DISPATCH(Exp2All)(from.data(), from.size(), 1.0f, -125.0f, to.data());
  for (size_t i = 0; i < to.size(); ++i) ASSERT_TRUE(std::isnan(to[i])) << std::bit_cast<uint32_t>(from[i]);
}

INSTANTIATE_TEST_SUITE_P(Targets, VectorFunctionsTest, ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return std::string(hwy::TargetName(target.param)); });

}  // namespace
}  // namespace tessera
#endif  // HWY_ONCE
