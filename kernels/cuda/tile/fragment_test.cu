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

}  // namespace
}  // namespace tessera::cuda
