// One decode kernel's shapes and what follows from them.
#ifndef TESSERA_KERNELS_CUDA_PAGED_DECODE_TRAITS_H_
#define TESSERA_KERNELS_CUDA_PAGED_DECODE_TRAITS_H_

#include <algorithm>

#include "kernels/cuda/paged/cached_operand.h"
#include "kernels/cuda/paged/key_value_stream.h"

namespace tessera::cuda::paged {

// kHeadDim: columns computed; a shorter head is filled up with zeros. kRowGroups: groups of 16 stacked rows.
template <typename Element_, typename Cached_, int kHeadDim_, int kRowGroups_>
struct DecodeTraits {
  using Element = Element_;
  using Cached = Cached_;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kRowGroups = kRowGroups_;
  static constexpr int kTileRows = 16 * kRowGroups;
  static constexpr int kWarps = kHeadDim > 128 ? 3 : 4;
  static constexpr int kThreads = 32 * kWarps;
  // Thread blocks of a multiprocessor, so that some stream while others begin or end; what their registers allow.
  static constexpr int kBlocks = kHeadDim > 128 || kRowGroups > 1 ? 2 : kHeadDim > 64 ? 3 : 4;

  // As many bytes on their way as that leaves room for on Hopper. One block's share is what every GPU since Ampere has.
  static constexpr int kRingBytes = 192 * 1024 / kBlocks;
  using Operand = CachedOperand<Element, Cached, kHeadDim>;
  using Tile = typename Operand::Tile;
  static constexpr int kBuffers = std::min(kRingBytes / (kWarps * Tile::kBytes) / 2 * 2, 16);
  using Stream = KeyValueStream<Cached, kHeadDim, kWarps, kBuffers>;
  static constexpr int kSharedBytes = kWarps * Stream::kWarpBytes;

  static constexpr int kCombineReads = kBlocks > 3 ? 16 : 32;  // splits, on their way to the block that combines

  static constexpr int kSteps = kHeadDim / 16;
  static constexpr int kOutputs = kHeadDim / 2;  // floats a thread and row group
};

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_DECODE_TRAITS_H_
