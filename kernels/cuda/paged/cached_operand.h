// Tiles of K and V as B operands of the 16-bit products.
//
// The order in which a product's depth and columns are numbered is free, as long as both sides agree; here it follows
// from reading whole chunks. g = lane / 4, t = lane % 4.
//   K: for keys 8 * half + g, lane t reads chunk 4 * i + t of the row, which holds elements for kChunkElements / 4
//      products; elements 4 * u .. 4 * u + 3 of the chunk are product u's. Q is read by the same rule.
//   V: 16-bit elements by ldmatrix, output columns in their order. Of fp8, which it cannot transpose, lane g reads
//      kRunColumns neighbouring columns of its four keys: run g of 8, whose columns are column g of as many products.
#ifndef TESSERA_KERNELS_CUDA_PAGED_CACHED_OPERAND_H_
#define TESSERA_KERNELS_CUDA_PAGED_CACHED_OPERAND_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/cuda/paged/cached_tile.h"
#include "kernels/cuda/ptx/mma.h"

namespace tessera::cuda::paged {

// Two fp8 e4m3 values, in bytes 1 and 3 of `word`, as two elements; NaN becomes +-480. Their bits are an element's of
// too small an exponent.
template <typename Element>
__device__ __forceinline__ uint32_t Widen(uint32_t word);

template <>
__device__ __forceinline__ uint32_t Widen<__half>(uint32_t word) {
  const uint32_t bits = (word & 0x80008000u) | (word >> 1 & 0x3f803f80u);
  const __half2 value = __hmul2(reinterpret_cast<const __half2&>(bits), __float2half2_rn(256.0f));
  return reinterpret_cast<const uint32_t&>(value);
}

template <>
__device__ __forceinline__ uint32_t Widen<__nv_bfloat16>(uint32_t word) {
  const uint32_t bits = (word & 0x80008000u) | (word >> 4 & 0x07f007f0u);
  const __nv_bfloat162 value = __hmul2(reinterpret_cast<const __nv_bfloat162&>(bits), __float2bfloat162_rn(0x1p120f));
  return reinterpret_cast<const uint32_t&>(value);
}

// Not 0 where one of four fp8 values is NaN.
__device__ __forceinline__ uint32_t AnyNaN(uint32_t word) { return ((word & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u; }

// Elements 4 * u .. 4 * u + 3 of a chunk of K, two a word.
template <typename Element, int kWords>
__device__ __forceinline__ void KeyOperand(uint32_t (&b)[2], const uint32_t (&chunk)[4], int u) {
  if constexpr (kWords == 2) {
    b[0] = chunk[2 * u];
    b[1] = chunk[2 * u + 1];
  } else {
    b[0] = Widen<Element>(__byte_perm(chunk[u], 0, 0x1404));
    b[1] = Widen<Element>(__byte_perm(chunk[u], 0, 0x3424));
  }
}

// Reads of one tile. `tile`: its K or V in shared memory.
template <typename Element, typename Cached, int kHeadDim>
struct CachedOperand {
  using Tile = CachedTile<Cached, kHeadDim>;
  static constexpr int kKeyChunks = Tile::kRowChunks / 4;       // that a lane reads of a row
  static constexpr int kChunkSteps = Tile::kChunkElements / 4;  // products that a chunk serves
  static constexpr int kWords = Tile::kIsFloat8 ? 1 : 2;        // of a chunk, for a product
  static constexpr int kRunColumns = 8;  // two words a key: more would take registers that there are not

  static __device__ __forceinline__ void LoadKeys(uint32_t (&chunk)[4], const unsigned char* tile, int half, int i) {
    const int lane = threadIdx.x % 32;
    const uint4 words = *reinterpret_cast<const uint4*>(tile + Tile::KeyOffset(8 * half + lane / 4, 4 * i + lane % 4));
    chunk[0] = words.x, chunk[1] = words.y, chunk[2] = words.z, chunk[3] = words.w;
  }

  // The output column of column `n` of product j.
  static __device__ __forceinline__ int OutputColumn(int j, int n) {
    if constexpr (!Tile::kIsFloat8) return 8 * j + n;
    return j / kRunColumns * (8 * kRunColumns) + n * kRunColumns + j % kRunColumns;
  }
};

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_CACHED_OPERAND_H_
