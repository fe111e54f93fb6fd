// A warp's tile of K or V in shared memory: 16 keys, in chunks of 16 bytes as they are in the pages.
//
// Chunks of a row are permuted so that what a warp reads at once lies in different banks. K is read as whole chunks by
// the lanes of two neighbouring rows; 16-bit V by ldmatrix, eight rows at one column; fp8 V as whole chunks of every
// second row. Rows of fewer than eight chunks (fp8, 64 columns) permute what they have.
#ifndef TESSERA_KERNELS_CUDA_PAGED_CACHED_TILE_H_
#define TESSERA_KERNELS_CUDA_PAGED_CACHED_TILE_H_

namespace tessera::cuda::paged {

inline constexpr int kTileKeys = 16;    // the depth of a 16-bit product
inline constexpr int kChunkBytes = 16;  // of an asynchronous copy

template <typename Cached, int kHeadDim>
struct CachedTile {
  static constexpr int kChunkElements = kChunkBytes / sizeof(Cached);
  static constexpr int kRowChunks = kHeadDim / kChunkElements;
  static constexpr int kRowBytes = kRowChunks * kChunkBytes;
  static constexpr int kBytes = kTileKeys * kRowBytes;
  static constexpr bool kIsFloat8 = sizeof(Cached) == 1;

  // Bytes from the tile's beginning to chunk `chunk` of key `row`.
  static __device__ __forceinline__ int KeyOffset(int row, int chunk) {
    return row * kRowBytes + (chunk ^ (kRowChunks < 8 ? 0 : (row & 1) << 2)) * kChunkBytes;
  }
  static __device__ __forceinline__ int ValueOffset(int row, int chunk) {
    constexpr int kMask = !kIsFloat8 ? 7 : kRowChunks < 8 ? 2 : 6;
    return row * kRowBytes + (chunk ^ (row & kMask)) * kChunkBytes;
  }
};

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_CACHED_TILE_H_
