#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/testing/device_array.h"
#include "kernels/cuda/tile/fragment.h"
#include "tests/random/seed.h"

namespace tessera::cuda {
namespace {

__global__ void Reduce(const float* values, float* maximum, float* sum) {
  maximum[threadIdx.x] = tile::QuadMax(values[threadIdx.x]);
  sum[threadIdx.x] = tile::QuadSum(values[threadIdx.x]);
}

TEST(FragmentTest, QuadsReduceAmongThemselves) {
  std::vector<float> values(32);
  for (int i = 0; i < 32; ++i) values[i] = static_cast<float>(i * 37 % 32 - 16);
  const DeviceArray<float> in(values), maximum(values), sum(values);
  Reduce<<<1, 32>>>(in.data(), maximum.data(), sum.data());
  const std::vector<float> maxima = maximum.Read(), sums = sum.Read();
  for (int lane = 0; lane < 32; ++lane) {
    const float* quad = &values[lane / 4 * 4];
    EXPECT_EQ(maxima[lane], std::fmax(std::fmax(quad[0], quad[1]), std::fmax(quad[2], quad[3])));
    EXPECT_EQ(sums[lane], quad[0] + quad[1] + quad[2] + quad[3]);
  }
}

__global__ void Transpose(uint32_t* words) {
  uint32_t w[4];
  for (int i = 0; i < 4; ++i) w[i] = words[threadIdx.x * 4 + i];
  tile::QuadTranspose(w, threadIdx.x % 4);
  for (int i = 0; i < 4; ++i) words[threadIdx.x * 4 + i] = w[i];
}

TEST(FragmentTest, QuadsTransposeTheirWords) {
  std::vector<uint32_t> words(128);
  for (uint32_t i = 0; i < 128; ++i) words[i] = i;
  const DeviceArray<uint32_t> device(words);
  Transpose<<<1, 32>>>(device.data());
  const std::vector<uint32_t> read = device.Read();
  for (int lane = 0; lane < 32; ++lane) {
    const int quad = lane / 4 * 4;
    for (int i = 0; i < 4; ++i) EXPECT_EQ(read[lane * 4 + i], words[(quad + i) * 4 + lane % 4]);
  }
}

template <typename Element>
__global__ void Round(const float* values, uint32_t* packed) {
  const float c[8] = {values[0], values[1], values[2], values[3], values[4], values[5], values[6], values[7]};
  uint32_t p[4];
  tile::PackOperand<Element>(p, c);
  for (int i = 0; i < 4; ++i) packed[i] = p[i];
}

template <typename Element>
void ExpectRoundedPairs() {
  std::mt19937_64 random(RandomSeed());
  std::normal_distribution<float> normal;
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::vector<float> values(8);
    for (float& value : values) value = normal(random);
    const DeviceArray<float> in(values);
    const DeviceArray<uint32_t> out(std::vector<uint32_t>(4));
    Round<Element><<<1, 1>>>(in.data(), out.data());
    const std::vector<uint32_t> packed = out.Read();
    for (int i = 0; i < 8; ++i) {
      const uint16_t bits = static_cast<uint16_t>(packed[i / 2] >> 16 * (i % 2));
      const float rounded = static_cast<float>(reinterpret_cast<const Element&>(bits));
      EXPECT_EQ(rounded, static_cast<float>(Element(values[i]))) << values[i];
    }
  }
}

TEST(FragmentTest, OperandsAreRoundedPairsInOrderFp16) { ExpectRoundedPairs<__half>(); }
TEST(FragmentTest, OperandsAreRoundedPairsInOrderBf16) { ExpectRoundedPairs<__nv_bfloat16>(); }

template <typename Element>
__global__ void Mark(const float* values, int pairs, uint32_t* mark) {
  uint32_t seen = 0;
  for (int i = 0; i < pairs; ++i) {
    seen = tile::MarkNotFinite<Element>(seen, tile::Pack<Element>(values[2 * i], values[2 * i + 1]));
  }
  *mark = seen;
}

template <typename Element>
bool Marks(const std::vector<float>& values) {
  const DeviceArray<float> in(values);
  const DeviceArray<uint32_t> mark(std::vector<uint32_t>(1, 0xABABABAB));
  Mark<Element><<<1, 1>>>(in.data(), static_cast<int>(values.size() / 2), mark.data());
  return mark.Read()[0] != 0;
}

template <typename Element>
void ExpectMarks() {
  const std::vector<float> finite = {0.0f, -0.0f, 1.0f, -1.0f, 60000.0f, -60000.0f, 1e-7f, -1e-7f};
  EXPECT_FALSE(Marks<Element>(finite));
  for (size_t place = 0; place < finite.size(); ++place) {
    for (float value : {INFINITY, -INFINITY, NAN}) {
      std::vector<float> values = finite;
      values[place] = value;
      EXPECT_TRUE(Marks<Element>(values)) << value << " at " << place;
    }
  }
}

TEST(FragmentTest, WhatIsNotFiniteIsMarkedFp16) { ExpectMarks<__half>(); }
TEST(FragmentTest, WhatIsNotFiniteIsMarkedBf16) { ExpectMarks<__nv_bfloat16>(); }

}  // namespace
}  // namespace tessera::cuda
