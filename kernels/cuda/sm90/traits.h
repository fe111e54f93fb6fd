// One forward kernel's shapes and what follows from them: warp roles, registers, shared memory.
#ifndef TESSERA_KERNELS_CUDA_SM90_TRAITS_H_
#define TESSERA_KERNELS_CUDA_SM90_TRAITS_H_

#include <cstdint>

#include "kernels/cuda/forward_table.h"
#include "kernels/cuda/key_range.h"
#include "kernels/cuda/page_box.h"
#include "kernels/cuda/tile/slab_layout.h"

namespace tessera::cuda::sm90 {

inline constexpr int kWarpgroup = 128;   // threads
inline constexpr int kMaxConsumers = 3;  // warpgroups
inline constexpr int kMmaRows = 64;      // query rows of one consumer warpgroup
static_assert(kMmaRows == kRowUnit);
inline constexpr int kMaxSharedBytes = 232448;  // of a block: 227 KiB

// kHeadDim: columns computed; a shorter head is filled up with zeros by the copy engine.
// kTileRows x kTileKeys: the tile; each 64 rows are one consumer warpgroup's. kStages: K/V blocks in flight.
// kQueryBuffers: tiles whose Q fits into shared memory, 1 or 2.
template <typename Element_, int kHeadDim_, int kTileRows_, int kTileKeys_, int kStages_, int kQueryBuffers_>
struct ForwardTraits {
  using Element = Element_;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kTileRows = kTileRows_;
  static constexpr int kTileKeys = kTileKeys_;
  static constexpr int kStages = kStages_;
  static constexpr int kQueryBuffers = kQueryBuffers_;

  static constexpr int kConsumers = kTileRows / kMmaRows;  // warpgroups
  static constexpr int kConsumerWarps = kConsumers * 4;
  static constexpr int kThreads = (kConsumers + 1) * kWarpgroup;
  static_assert(kConsumers == 1 || kConsumers == 2 || kConsumers == 3);
  static_assert(kTileRows % kMmaRows == 0 && kTileKeys % tile::kMmaDepth == 0 && kTileKeys <= 256);

  // A block starts with the registers its launch bounds allow; what the producer gives up the consumers get.
  static constexpr int kProducerRegisters = kConsumers == 1 ? 56 : kConsumers == 2 ? 40 : 32;
  static constexpr int kConsumerRegisters = kConsumers == 1 ? 248 : kConsumers == 2 ? 232 : 160;
  static constexpr int kStartRegisters = 65536 / kThreads / 8 * 8;
  static_assert(kProducerRegisters + kConsumers * kConsumerRegisters <= (1 + kConsumers) * kStartRegisters,
                "RegistersIncrease would wait for ever");

  using QLayout = tile::SlabLayout<kMmaRows, kHeadDim>;  // one warpgroup's
  using KvLayout = tile::SlabLayout<kTileKeys, kHeadDim>;

  // O leaves through the buffer that held the tile's Q; the next tile's Q is in the other one by then.
  static constexpr bool kStagesOutput = kQueryBuffers > 1;

  // K and V may come in boxes out of pages.
  static constexpr bool kReadsPages = BoxKeys(kTileKeys, kTileKeys) * KvLayout::kRowBytes >= kLeastBoxBytes;

  // Consumers take turns on the tensor core: while one computes products the others compute softmax.
  static constexpr bool kPingPong = kConsumers > 1 && kHeadDim <= 128;
};

// A tile as the producer hands it to the consumers.
struct TileInfo {
  SequenceShape shape;
  int32_t sequence;  // -1: no more tiles
  int32_t head;      // table head
  int32_t first_token;
  KeyBlocks blocks;
  int32_t hides_values;  // some row does not see some value that its products touch
  int32_t reserved[3];
};

inline constexpr int kTileSlots = 4;  // the one stored, the one computed, the one begun, the one that is loaded

template <typename Traits>
struct SharedStorage {
  alignas(1024) unsigned char q[Traits::kQueryBuffers][Traits::kConsumers][Traits::QLayout::kBytes];
  alignas(1024) unsigned char k[Traits::kStages][Traits::KvLayout::kBytes];
  alignas(1024) unsigned char v[Traits::kStages][Traits::KvLayout::kBytes];
  alignas(16) TileInfo tile[kTileSlots];
  uint64_t q_full[Traits::kQueryBuffers][Traits::kConsumers], q_empty[Traits::kQueryBuffers][Traits::kConsumers];
  uint64_t o_full[Traits::kQueryBuffers][Traits::kConsumers];  // the buffers of q, holding outputs
  uint64_t k_full[Traits::kStages], k_empty[Traits::kStages];
  uint64_t v_full[Traits::kStages], v_empty[Traits::kStages];
  uint64_t tile_full[kTileSlots], tile_empty[kTileSlots];
  uint64_t tile_wanted;
};

// Dynamic shared memory starts at a multiple of 16 only; the kernel rounds up.
template <typename Traits>
inline constexpr int kSharedBytes = sizeof(SharedStorage<Traits>) + 1024;

// A ring position and its barrier parity, in one register: the producer has few.
template <int kSize>
class RingCursor {
 public:
  __device__ __forceinline__ int index() const { return kSize == 1 ? 0 : static_cast<int>(value_ >> 1); }
  __device__ __forceinline__ uint32_t parity() const { return value_ & 1; }
  __device__ __forceinline__ void Advance() {
    value_ += 2;
    if (value_ >= 2 * kSize) value_ = (value_ ^ 1) - 2 * kSize;
  }

 private:
  uint32_t value_ = 0;
};

}  // namespace tessera::cuda::sm90

#endif  // TESSERA_KERNELS_CUDA_SM90_TRAITS_H_
