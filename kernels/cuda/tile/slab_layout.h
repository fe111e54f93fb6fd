// How tiles lie in shared memory, and how wgmma is told (sm_90a, 16-bit elements).
//
// A tile [rows, head_dim] is cut into slabs of kSlabWidth columns; a slab is [rows, kSlabWidth], rows adjacent, its
// 16-byte chunks swizzled inside groups of 8 rows as the copy engine does it (128-byte rows, or 64-byte ones where
// head_dim is not a multiple of 64). Slabs start at multiples of 8 rows, the tile at a multiple of 1024 bytes.
#ifndef TESSERA_KERNELS_CUDA_TILE_SLAB_LAYOUT_H_
#define TESSERA_KERNELS_CUDA_TILE_SLAB_LAYOUT_H_

#include <cstdint>

#include "kernels/cuda/tile/slab_width.h"

namespace tessera::tile {

inline constexpr int kElementBytes = 2;
inline constexpr int kMmaDepth = 16;  // K of one wgmma instruction

template <int kRows_, int kHeadDim_>
struct SlabLayout {
  static constexpr int kRows = kRows_;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kSlabWidth = SlabWidth(kHeadDim);
  static constexpr int kSlabs = kHeadDim / kSlabWidth;
  static constexpr int kRowBytes = kSlabWidth * kElementBytes;
  static constexpr int kSlabBytes = kRows * kRowBytes;
  static constexpr int kBytes = kSlabs * kSlabBytes;
  static constexpr int kGroupBytes = 8 * kRowBytes;  // 8 rows: the swizzle's period
  static_assert(kHeadDim % kSlabWidth == 0 && kRows % 8 == 0, "whole slabs of whole swizzle groups");

  // The descriptor's constant part: swizzle mode in bits 62-63 (1: 128 bytes, 2: 64 bytes), the two byte offsets / 16.
  static constexpr uint64_t Word(uint64_t leading_bytes, uint64_t stride_bytes) {
    return (kRowBytes == 128 ? 1ull : 2ull) << 62 | (stride_bytes >> 4) << 32 | (leading_bytes >> 4) << 16;
  }

  // Of the tile read with head_dim as K (queries as a, keys as b): 8-row groups follow each other.
  static constexpr uint64_t kDepthInnerWord = Word(16, kGroupBytes);

  // Of the tile read with rows as K and head_dim as columns (values as b): slabs are kSlabBytes apart.
  static constexpr uint64_t kColumnsInnerWord = Word(kSlabBytes, kGroupBytes);

  // Byte offset of K step `step` in the two readings.
  __host__ __device__ static constexpr int DepthInnerOffset(int step) {
    constexpr int kStepsPerSlab = kSlabWidth / kMmaDepth;
    return step / kStepsPerSlab * kSlabBytes + step % kStepsPerSlab * (kMmaDepth * kElementBytes);
  }
  __host__ __device__ static constexpr int ColumnsInnerOffset(int step) { return step * kMmaDepth * kRowBytes; }
};

// The descriptor of a tile (or of a K step in it) at a shared-memory address.
__device__ __forceinline__ uint64_t MatrixDescriptor(uint64_t word, uint32_t shared_address) {
  return word | (shared_address & 0x3ffff) >> 4;
}

}  // namespace tessera::tile

#endif  // TESSERA_KERNELS_CUDA_TILE_SLAB_LAYOUT_H_
