// One portable forward kernel's shapes and what follows from them.
#ifndef TESSERA_KERNELS_CUDA_SM80_FORWARD_TRAITS_H_
#define TESSERA_KERNELS_CUDA_SM80_FORWARD_TRAITS_H_

#include "kernels/cuda/sm80/block_work.h"
#include "kernels/cuda/sm80/key_value_ring.h"
#include "kernels/cuda/sm80/padded_tile.h"
#include "kernels/cuda/sm80/warp_product.h"

namespace tessera::cuda::sm80 {

// kHeadDim: columns computed; a shorter head is filled up with zeros. kWarps warps of kWarpRows query rows each,
// against kTileKeys keys at a time. kBuffers: of the K/V ring. kBlocks: thread blocks a multiprocessor should hold.
template <typename Element_, int kHeadDim_, int kWarps_, int kWarpRows_, int kTileKeys_, int kBuffers_,
          bool kQueriesInRegisters_, int kBlocks_>
struct ForwardTraits {
  using Element = Element_;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kWarpRows = kWarpRows_;
  static constexpr int kTileRows = kWarps_ * kWarpRows_;
  static constexpr int kTileKeys = kTileKeys_;
  static constexpr int kThreads = kWarps_ * 32;
  static constexpr int kBlocks = kBlocks_;
  static constexpr bool kQueriesInRegisters = kQueriesInRegisters_;

  using QTile = PaddedTile<Element, kTileRows, kHeadDim>;
  using KvTile = PaddedTile<Element, kTileKeys, kHeadDim>;
  using Ring = KeyValueRing<KvTile, kBuffers_, kThreads>;
  static constexpr int kStaticSharedBytes = sizeof(BlockWork);
  static constexpr int kSharedBytes = QTile::kBytes + Ring::kBytes;

  static constexpr int kRowGroups = kWarpRows / kMmaRows;
  static constexpr int kSteps = kHeadDim / kMmaDepth;
  static constexpr int kScores = kTileKeys / 2;  // floats a thread and row group
  static constexpr int kOutputs = kHeadDim / 2;
  static_assert(kWarpRows % kMmaRows == 0 && kTileKeys % kMmaDepth == 0 && kHeadDim % 32 == 0);
};

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_FORWARD_TRAITS_H_
