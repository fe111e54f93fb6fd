// Shapes of the fp32 forward kernel, which multiplies on the ordinary FP32 units so that no operand is rounded.
//
// 8 neighbouring lanes share kThreadRows rows. Lane x of them holds scores of keys x + 8 * j, and columns
// 32 * c + 4 * x .. + 3 of O. Rows of a thread are 16 apart: row lane y holds rows y + 16 * i.
#ifndef TESSERA_KERNELS_CUDA_SM80_FP32_TRAITS_H_
#define TESSERA_KERNELS_CUDA_SM80_FP32_TRAITS_H_

#include "kernels/cuda/sm80/block_work.h"
#include "kernels/cuda/sm80/key_value_ring.h"
#include "kernels/cuda/sm80/padded_tile.h"

namespace tessera::cuda::sm80 {

template <int kHeadDim_, int kThreadRows_, int kBuffers_, int kBlocks_>
struct Fp32Traits {
  using Element = float;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kThreads = 128;
  static constexpr int kRowLanes = 16;
  static constexpr int kColumnLanes = 8;
  static constexpr int kThreadRows = kThreadRows_;
  static constexpr int kThreadKeys = 4;
  static constexpr int kThreadChunks = kHeadDim / 32;  // of 4 columns
  static constexpr int kTileRows = kRowLanes * kThreadRows;
  static constexpr int kTileKeys = kColumnLanes * kThreadKeys;
  static constexpr int kBlocks = kBlocks_;

  using QTile = PaddedTile<float, kTileRows, kHeadDim>;
  using KvTile = PaddedTile<float, kTileKeys, kHeadDim>;
  using Ring = KeyValueRing<KvTile, kBuffers_, kThreads>;
  static constexpr int kStaticSharedBytes = sizeof(BlockWork);
  static constexpr int kSharedBytes = QTile::kBytes + Ring::kBytes;
  static_assert(kRowLanes * kColumnLanes == kThreads && kHeadDim % 32 == 0);
};

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_FP32_TRAITS_H_
