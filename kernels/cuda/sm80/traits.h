// Shapes of the portable forward kernels: one warp per 16 query rows, K and V double-buffered in shared memory.
#ifndef TESSERA_KERNELS_CUDA_SM80_TRAITS_H_
#define TESSERA_KERNELS_CUDA_SM80_TRAITS_H_

#include <cstdint>

namespace tessera::cuda::sm80 {

// kHeadDim: columns computed; shorter heads are filled up with zeros. A tile is 16 * kWarps rows by kTileKeys keys.
template <typename Element_, int kHeadDim_, int kWarps_, int kTileKeys_>
struct ForwardTraits {
  using Element = Element_;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kWarps = kWarps_;
  static constexpr int kTileKeys = kTileKeys_;
  static constexpr int kTileRows = 16 * kWarps;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kChunks = kHeadDim / 8;  // 16-byte pieces of a row of 16-bit elements
  static_assert(kHeadDim % 16 == 0 && kTileKeys % 16 == 0);

  // Rows are padded by one piece, so that the 8 rows that ldmatrix reads at a time lie in different banks.
  static constexpr int kRowBytes = kHeadDim * 2 + 16;
  static constexpr int kQBytes = kTileRows * kRowBytes;
  static constexpr int kBlockBytes = kTileKeys * kRowBytes;
  static constexpr int kSharedBytes = kQBytes + 4 * kBlockBytes;  // Q, two K, two V
};

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_TRAITS_H_
