// Tiles in shared memory as the portable kernels lay them out: rows of kHeadDim elements, each followed by 16 unused
// bytes. A row is an odd number of 16-byte chunks, so the same chunk of 8 consecutive rows lies in 8 different bank
// groups, and every address is one base register and a constant.
#ifndef TESSERA_KERNELS_CUDA_SM80_PADDED_TILE_H_
#define TESSERA_KERNELS_CUDA_SM80_PADDED_TILE_H_

namespace tessera::cuda::sm80 {

inline constexpr int kChunkBytes = 16;

template <typename Element_, int kRows_, int kHeadDim_>
struct PaddedTile {
  using Element = Element_;
  static constexpr int kRows = kRows_;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kChunkElements = kChunkBytes / static_cast<int>(sizeof(Element));
  static constexpr int kChunks = kHeadDim / kChunkElements;
  static constexpr int kRowBytes = kChunks * kChunkBytes + kChunkBytes;
  static constexpr int kBytes = kRows * kRowBytes;
  static_assert(kHeadDim % kChunkElements == 0, "rows are whole chunks");
  static_assert(kRowBytes / kChunkBytes % 2 == 1, "eight rows must not share a bank group");

  // Byte offset of an element.
  static __host__ __device__ constexpr int Offset(int row, int column) {
    return row * kRowBytes + column * static_cast<int>(sizeof(Element));
  }
};

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_PADDED_TILE_H_
