// A warp's matrix products on padded tiles, 16-bit elements: S = Q K^T and O += P V for kRowGroups groups of 16 rows.
// Fragments are as in kernels/cuda/tile/fragment.h.
#ifndef TESSERA_KERNELS_CUDA_SM80_WARP_PRODUCT_H_
#define TESSERA_KERNELS_CUDA_SM80_WARP_PRODUCT_H_

#include <cstdint>

#include "kernels/cuda/ptx/mma.h"

namespace tessera::cuda::sm80 {

inline constexpr int kMmaRows = 16;
inline constexpr int kMmaDepth = 16;

// Where lane `lane` reads to load a 16 x 16 corner of the tile at `tile`: as the A operand, and likewise as B where the
// tile's rows are the depth (transposed)...
template <typename Tile>
__device__ __forceinline__ uint32_t RowsAddress(uint32_t tile, int lane) {
  return tile + Tile::Offset(lane % 16, lane / 16 * 8);
}

// ... and as two B operands where the tile's rows are the columns of the product.
template <typename Tile>
__device__ __forceinline__ uint32_t ColumnsAddress(uint32_t tile, int lane) {
  return tile + Tile::Offset(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
}

// The A operands of kRowGroups groups of 16 rows for one step of the depth. address: RowsAddress.
template <typename Tile, int kRowGroups>
__device__ __forceinline__ void LoadRows(uint32_t (&a)[kRowGroups][4], uint32_t address, int step) {
#pragma unroll
  for (int group = 0; group < kRowGroups; ++group) {
    ptx::LoadMatrix(a[group], address + Tile::Offset(group * kMmaRows, step * kMmaDepth));
  }
}

// s += a K^T over one step of the depth. k: ColumnsAddress.
template <typename Tile, int kRowGroups, int kScores>
__device__ __forceinline__ void AddScores(float (&s)[kRowGroups][kScores], const uint32_t (&a)[kRowGroups][4],
                                          uint32_t k, int step) {
  using Element = typename Tile::Element;
#pragma unroll
  for (int pair = 0; pair < kScores / 8; ++pair) {
    uint32_t b[4];
    ptx::LoadMatrix(b, k + Tile::Offset(pair * 16, step * kMmaDepth));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int group = 0; group < kRowGroups; ++group) {
        float(&c)[4] = reinterpret_cast<float(&)[4]>(s[group][8 * pair + 4 * half]);
        ptx::Mma16x8x16<Element>(c, a[group], b[2 * half], b[2 * half + 1]);
      }
    }
  }
}

// o += P V. v: RowsAddress.
template <typename Tile, int kRowGroups, int kWords, int kOutputs>
__device__ __forceinline__ void AddOutputs(float (&o)[kRowGroups][kOutputs], const uint32_t (&p)[kRowGroups][kWords],
                                           uint32_t v) {
  using Element = typename Tile::Element;
#pragma unroll
  for (int step = 0; step < kWords / 4; ++step) {
#pragma unroll
    for (int pair = 0; pair < kOutputs / 8; ++pair) {
      uint32_t b[4];
      ptx::LoadMatrixTransposed(b, v + Tile::Offset(step * kMmaDepth, pair * 16));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int group = 0; group < kRowGroups; ++group) {
          float(&c)[4] = reinterpret_cast<float(&)[4]>(o[group][8 * pair + 4 * half]);
          const uint32_t(&a)[4] = reinterpret_cast<const uint32_t(&)[4]>(p[group][4 * step]);
          ptx::Mma16x8x16<Element>(c, a, b[2 * half], b[2 * half + 1]);
        }
      }
    }
  }
}

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_WARP_PRODUCT_H_
