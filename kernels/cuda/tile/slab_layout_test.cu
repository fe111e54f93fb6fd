// Warpgroup products of tiles in the slab layout, in every shape that the forward kernels use: the layout, its
// descriptors and the wgmma wrappers together. Inputs are small integers, so that every sum is exact.
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/ptx/barrier.h"
#include "kernels/cuda/ptx/fence.h"
#include "kernels/cuda/ptx/wgmma.h"
#include "kernels/cuda/testing/device_array.h"
#include "kernels/cuda/testing/slab_image.h"
#include "kernels/cuda/tile/slab_layout.h"
#include "tests/random/seed.h"

namespace tessera::cuda {
namespace {

constexpr int kRows = 64;

template <typename Element, int kHeadDim, int kKeys>
struct Shape {
  using QLayout = tile::SlabLayout<kRows, kHeadDim>;
  using KvLayout = tile::SlabLayout<kKeys, kHeadDim>;
  static constexpr int kSharedBytes = QLayout::kBytes + KvLayout::kBytes + 1024;
};

// The image goes to a multiple of 1024 bytes in shared memory.
template <int kBytes>
__device__ void Fill(unsigned char* shared, const void* image) {
  for (int i = threadIdx.x; i < kBytes / 16; i += blockDim.x) {
    reinterpret_cast<uint4*>(shared)[i] = static_cast<const uint4*>(image)[i];
  }
}

// The accumulator's position of this thread's float i: row and column of the 64-row product.
__device__ int RowOf(int i) { return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8; }
__device__ int ColumnOf(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

// s[64, kKeys] = q k^T from images of q [64, kHeadDim] and k [kKeys, kHeadDim]. s starts as NaN: it is overwritten.
template <typename Element, int kHeadDim, int kKeys>
__global__ void __launch_bounds__(128) Scores(const void* q_image, const void* k_image, float* s) {
  using S = Shape<Element, kHeadDim, kKeys>;
  extern __shared__ unsigned char dynamic_shared[];
  unsigned char* q = dynamic_shared + (1024 - ptx::SharedAddress(dynamic_shared) % 1024) % 1024;
  unsigned char* k = q + S::QLayout::kBytes;
  Fill<S::QLayout::kBytes>(q, q_image);
  Fill<S::KvLayout::kBytes>(k, k_image);
  ptx::FenceProxyAsyncShared();
  __syncthreads();
  float c[kKeys / 2];
  for (int i = 0; i < kKeys / 2; ++i) c[i] = __int_as_float(0x7fffffff);
  ptx::WgmmaPin(c);
  ptx::WgmmaFence();
  for (int step = 0; step < kHeadDim / tile::kMmaDepth; ++step) {
    ptx::WgmmaShared<Element, kKeys>(
        c,
        tile::MatrixDescriptor(S::QLayout::kDepthInnerWord, ptx::SharedAddress(q) + S::QLayout::DepthInnerOffset(step)),
        tile::MatrixDescriptor(S::KvLayout::kDepthInnerWord,
                               ptx::SharedAddress(k) + S::KvLayout::DepthInnerOffset(step)),
        step > 0);
  }
  ptx::WgmmaCommit();
  ptx::WgmmaWait<0>();
  ptx::WgmmaPin(c);
  for (int i = 0; i < kKeys / 2; ++i) s[RowOf(i) * kKeys + ColumnOf(i)] = c[i];
}

// o[64, kHeadDim] += p v from p [64, kKeys], row after row, and an image of v [kKeys, kHeadDim].
template <typename Element, int kHeadDim, int kKeys>
__global__ void __launch_bounds__(128) Outputs(const Element* p, const void* v_image, float* o) {
  using S = Shape<Element, kHeadDim, kKeys>;
  extern __shared__ unsigned char dynamic_shared[];
  unsigned char* v = dynamic_shared + (1024 - ptx::SharedAddress(dynamic_shared) % 1024) % 1024;
  Fill<S::KvLayout::kBytes>(v, v_image);
  ptx::FenceProxyAsyncShared();
  __syncthreads();
  uint32_t a[kKeys / 4];
  for (int i = 0; i < kKeys / 4; ++i) {
    a[i] = *reinterpret_cast<const uint32_t*>(&p[RowOf(2 * i) * kKeys + ColumnOf(2 * i)]);
  }
  float c[kHeadDim / 2];
  for (int i = 0; i < kHeadDim / 2; ++i) c[i] = o[RowOf(i) * kHeadDim + ColumnOf(i)];
  ptx::WgmmaPin(c);
  ptx::WgmmaPin(a);
  ptx::WgmmaFence();
#pragma unroll
  for (int step = 0; step < kKeys / tile::kMmaDepth; ++step) {
    ptx::WgmmaRegisters<Element, kHeadDim>(
        c, reinterpret_cast<const uint32_t(&)[4]>(a[4 * step]),
        tile::MatrixDescriptor(S::KvLayout::kColumnsInnerWord,
                               ptx::SharedAddress(v) + S::KvLayout::ColumnsInnerOffset(step)),
        1);
  }
  ptx::WgmmaCommit();
  ptx::WgmmaWait<0>();
  ptx::WgmmaPin(c);
  for (int i = 0; i < kHeadDim / 2; ++i) o[RowOf(i) * kHeadDim + ColumnOf(i)] = c[i];
}

template <typename Element>
struct Matrix {
  Matrix(int rows, int columns, std::mt19937_64& random)
      : rows(rows), columns(columns), values(static_cast<size_t>(rows) * columns) {
    std::uniform_int_distribution<int> small(-4, 4);
    for (Element& value : values) value = static_cast<float>(small(random));
  }
  float At(int row, int column) const { return static_cast<float>(values[row * columns + column]); }
  std::vector<Element> Image() const {
    std::vector<Element> image(values.size());
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) {
        image[SlabImageIndex(rows, columns, row, column)] = values[row * columns + column];
      }
    }
    return image;
  }

  int rows, columns;
  std::vector<Element> values;
};

template <typename TestShape>
class SlabLayoutTest;

template <typename Element, int kHeadDim, int kKeys>
class SlabLayoutTest<Shape<Element, kHeadDim, kKeys>> : public Sm90Test {
 protected:
  using S = Shape<Element, kHeadDim, kKeys>;

  void ExpectScores() {
    std::mt19937_64 random(RandomSeed());
    const Matrix<Element> q(kRows, kHeadDim, random), k(kKeys, kHeadDim, random);
    const DeviceArray<Element> q_image(q.Image()), k_image(k.Image());
    const DeviceArray<float> s(std::vector<float>(kRows * kKeys, -1.0f));
    const auto kernel = Scores<Element, kHeadDim, kKeys>;
    ASSERT_EQ(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes), cudaSuccess);
    kernel<<<1, 128, S::kSharedBytes>>>(q_image.data(), k_image.data(), s.data());
    const std::vector<float> result = s.Read();
    for (int row = 0; row < kRows; ++row) {
      for (int key = 0; key < kKeys; ++key) {
        float expected = 0.0f;
        for (int c = 0; c < kHeadDim; ++c) expected += q.At(row, c) * k.At(key, c);
        ASSERT_EQ(result[row * kKeys + key], expected) << "row " << row << ", key " << key;
      }
    }
  }

  void ExpectOutputs() {
    std::mt19937_64 random(RandomSeed());
    const Matrix<Element> p(kRows, kKeys, random), v(kKeys, kHeadDim, random);
    const DeviceArray<Element> p_rows(p.values), v_image(v.Image());
    const DeviceArray<float> o(std::vector<float>(kRows * kHeadDim, 5.0f));
    const auto kernel = Outputs<Element, kHeadDim, kKeys>;
    ASSERT_EQ(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes), cudaSuccess);
    kernel<<<1, 128, S::kSharedBytes>>>(p_rows.data(), v_image.data(), o.data());
    const std::vector<float> result = o.Read();
    for (int row = 0; row < kRows; ++row) {
      for (int c = 0; c < kHeadDim; ++c) {
        float expected = 5.0f;
        for (int key = 0; key < kKeys; ++key) expected += p.At(row, key) * v.At(key, c);
        ASSERT_EQ(result[row * kHeadDim + c], expected) << "row " << row << ", column " << c;
      }
    }
  }
};

// Head size and keys of a block as in sm90/forward_*.cu.
using Shapes =
    ::testing::Types<Shape<__half, 64, 128>, Shape<__half, 96, 128>, Shape<__half, 128, 128>, Shape<__half, 128, 176>,
                     Shape<__half, 192, 112>, Shape<__half, 256, 80>, Shape<__nv_bfloat16, 64, 128>,
                     Shape<__nv_bfloat16, 96, 128>, Shape<__nv_bfloat16, 128, 128>, Shape<__nv_bfloat16, 128, 176>,
                     Shape<__nv_bfloat16, 192, 112>, Shape<__nv_bfloat16, 256, 80>>;
TYPED_TEST_SUITE(SlabLayoutTest, Shapes);

TYPED_TEST(SlabLayoutTest, ScoresOfTwoTilesInSharedMemory) { this->ExpectScores(); }
TYPED_TEST(SlabLayoutTest, OutputsOfRegistersAndATransposedTile) { this->ExpectOutputs(); }

}  // namespace
}  // namespace tessera::cuda
