#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/ptx/barrier.h"
#include "kernels/cuda/ptx/mma.h"
#include "kernels/cuda/testing/device_array.h"
#include "tests/random/seed.h"

namespace tessera::cuda {
namespace {

template <typename Element>
__device__ uint32_t PairOf(const Element* low, const Element* high) {
  const Element pair[2] = {*low, *high};
  return *reinterpret_cast<const uint32_t*>(pair);
}

// a: [16, 16], b: [16, 8], c: [16, 8], all row after row; fragments as mma.h says they lie.
template <typename Element>
__global__ void Multiply(const Element* a, const Element* b, float* c) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4;
  uint32_t fragment_a[4], fragment_b[2];
  for (int i = 0; i < 4; ++i) {
    const Element* at = a + (g + 8 * (i % 2)) * 16 + 2 * t + 8 * (i / 2);
    fragment_a[i] = PairOf(at, at + 1);
  }
  for (int i = 0; i < 2; ++i) {
    const Element* at = b + (2 * t + 8 * i) * 8 + g;
    fragment_b[i] = PairOf(at, at + 8);
  }
  float fragment_c[4];
  for (int i = 0; i < 4; ++i) fragment_c[i] = c[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2];
  ptx::Mma16x8x16<Element>(fragment_c, fragment_a, fragment_b[0], fragment_b[1]);
  for (int i = 0; i < 4; ++i) c[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = fragment_c[i];
}

// Small integers: every sum is exact in any order.
template <typename Element>
void ExpectExactProduct() {
  std::mt19937_64 random(RandomSeed());
  std::uniform_int_distribution<int> small(-8, 8);
  std::vector<Element> a(16 * 16), b(16 * 8);
  std::vector<float> c(16 * 8);
  for (Element& x : a) x = static_cast<float>(small(random));
  for (Element& x : b) x = static_cast<float>(small(random));
  for (float& x : c) x = static_cast<float>(small(random));
  const DeviceArray<Element> device_a(a), device_b(b);
  const DeviceArray<float> device_c(c);
  Multiply<Element><<<1, 32>>>(device_a.data(), device_b.data(), device_c.data());
  const std::vector<float> result = device_c.Read();
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      float expected = c[row * 8 + column];
      for (int k = 0; k < 16; ++k) {
        expected += static_cast<float>(a[row * 16 + k]) * static_cast<float>(b[k * 8 + column]);
      }
      EXPECT_EQ(result[row * 8 + column], expected) << row << ", " << column;
    }
  }
}

TEST(MmaTest, Fp16ProductIsExactOnSmallIntegers) { ExpectExactProduct<__half>(); }
TEST(MmaTest, Bf16ProductIsExactOnSmallIntegers) { ExpectExactProduct<__nv_bfloat16>(); }

// matrices: four [8, 8], one after another; registers: [32 lanes][4].
__global__ void Load(const uint16_t* matrices, uint32_t* plain, uint32_t* transposed) {
  __shared__ __align__(16) uint16_t shared[4 * 64];
  for (int i = threadIdx.x; i < 4 * 64; i += 32) shared[i] = matrices[i];
  __syncwarp();
  const uint32_t row = ptx::SharedAddress(shared) + threadIdx.x * 16;  // row % 8 of matrix / 8
  uint32_t r[4];
  ptx::LoadMatrix(r, row);
  for (int i = 0; i < 4; ++i) plain[threadIdx.x * 4 + i] = r[i];
  ptx::LoadMatrixTransposed(r, row);
  for (int i = 0; i < 4; ++i) transposed[threadIdx.x * 4 + i] = r[i];
}

TEST(MmaTest, MatricesAreLoadedAsFragments) {
  std::vector<uint16_t> matrices(4 * 64);
  std::iota(matrices.begin(), matrices.end(), uint16_t{1});
  const DeviceArray<uint16_t> source(matrices);
  const DeviceArray<uint32_t> plain{std::vector<uint32_t>(128)}, transposed{std::vector<uint32_t>(128)};
  Load<<<1, 32>>>(source.data(), plain.data(), transposed.data());
  const std::vector<uint32_t> rows = plain.Read(), columns = transposed.Read();
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t g = lane / 4, t = lane % 4;
    for (uint32_t matrix = 0; matrix < 4; ++matrix) {
      const uint16_t* m = &matrices[matrix * 64];
      EXPECT_EQ(rows[lane * 4 + matrix], m[g * 8 + 2 * t] | uint32_t{m[g * 8 + 2 * t + 1]} << 16);
      EXPECT_EQ(columns[lane * 4 + matrix], m[2 * t * 8 + g] | uint32_t{m[(2 * t + 1) * 8 + g]} << 16);
    }
  }
}

}  // namespace
}  // namespace tessera::cuda
