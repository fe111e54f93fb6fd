// The scheduler warp: decides which tile this block computes next and describes it to the other warps, when the load
// warp asks for it, so that nobody waits for the counter, the table or a tensor map's first use.
//
// Tile numbers come from one global counter. Sections are ordered longest sequence first and hold as many heads as
// share the L2 cache well; inside a section the row block is the slowest index and falls, so that with a causal mask
// the longest tiles start first and the short ones fill the end. Which block computes a tile never changes its result.
#ifndef TESSERA_KERNELS_CUDA_SM90_TILE_SCHEDULER_H_
#define TESSERA_KERNELS_CUDA_SM90_TILE_SCHEDULER_H_

#include "kernels/cuda/key_range.h"
#include "kernels/cuda/ptx/barrier.h"
#include "kernels/cuda/ptx/fence.h"
#include "kernels/cuda/ptx/tma.h"
#include "kernels/cuda/sm90/traits.h"

namespace tessera::cuda::sm90 {

// Every call by one whole warp.
template <typename Traits>
class TileScheduler {
 public:
  __device__ TileScheduler(const ForwardLaunch& launch, SharedStorage<Traits>& storage)
      : launch_(launch), storage_(storage) {}

  // Hands out tiles until none is left, then the end mark.
  __device__ void Run() {
    for (uint32_t wanted_parity = 1;; wanted_parity ^= 1) {
      ptx::BarrierWait(&storage_.tile_wanted, wanted_parity);  // the first passes at once
      uint32_t tile = 0;
      if (Lane() == 0) tile = atomicAdd(launch_.next_tile, 1);
      tile = __shfl_sync(0xffffffffu, tile, 0);
      if (tile >= launch_.tile_count) break;
      Describe(tile);
    }
    TileInfo& info = AcquireSlot();
    if (Lane() == 0) info.sequence = -1;
    PublishSlot();
  }

 private:
  __device__ static int Lane() { return threadIdx.x % 32; }

  __device__ TileInfo& AcquireSlot() {
    ptx::BarrierWait(&storage_.tile_empty[slot_.index()], slot_.parity() ^ 1);
    return storage_.tile[slot_.index()];
  }

  // Every lane arrives for what it wrote itself.
  __device__ void PublishSlot() {
    ptx::BarrierArrive(&storage_.tile_full[slot_.index()]);
    slot_.Advance();
  }

  __device__ void Describe(uint32_t tile) {
    FindSection(tile);
    const TileSection& section = launch_.sections[section_];
    const uint32_t index = tile - section.first_tile;
    const uint32_t lane = section.first_head + index % section.lanes;
    const int32_t row_block = static_cast<int32_t>(section.row_blocks - 1 - index / section.lanes);
    const int32_t sequence = static_cast<int32_t>(section.first_sequence + lane / section.heads);
    const SequenceEntry& entry = launch_.sequences[sequence];
    AcquireTensorMaps(entry, sequence);

    const SequenceShape& shape = entry.shape;
    const int32_t first_token = row_block * shape.tokens_per_tile;
    const int32_t last_token = min(first_token + shape.tokens_per_tile, shape.q_len) - 1;
    KeyBlocks blocks = VisibleBlocks(first_token, last_token, shape.q_len, shape.kv_len, launch_.left, launch_.right,
                                     Traits::kTileKeys);
    // A tile that sees no key is one block that is masked whole: 0 and -inf come out without a case of their own.
    if (blocks.empty()) blocks = {0, 1, 1, 0};
    // Past the end of the sequence the copy engine writes zeros, which hide nothing; without keys it brings a stand-in.
    const KeyRange first = VisibleKeys(first_token, shape.q_len, shape.kv_len, launch_.left, launch_.right);
    const KeyRange last = VisibleKeys(last_token, shape.q_len, shape.kv_len, launch_.left, launch_.right);
    const bool hides_values = shape.kv_len == 0 || first.end < min(blocks.end * Traits::kTileKeys, shape.kv_len) ||
                              last.begin > blocks.begin * Traits::kTileKeys;

    TileInfo& info = AcquireSlot();
    constexpr int kWords = sizeof(SequenceShape) / sizeof(uint4);
    if (Lane() < kWords) {
      reinterpret_cast<uint4*>(&info.shape)[Lane()] = reinterpret_cast<const uint4*>(&shape)[Lane()];
    }
    if (Lane() == 0) {
      info.sequence = sequence;
      info.head = static_cast<int32_t>(lane % section.heads);
      info.first_token = first_token;
      info.blocks = blocks;
      info.hides_values = hides_values;
    }
    PublishSlot();
  }

  // An earlier kernel wrote the maps: orders that before the copies of every warp that the slot's barrier lets on.
  __device__ void AcquireTensorMaps(const SequenceEntry& entry, int32_t sequence) {
    if (sequence == acquired_sequence_) return;
    acquired_sequence_ = sequence;
    constexpr int kMaps = 4;
    if (Lane() < (launch_.in_pages ? 2 * kMaps : kMaps)) {
      const TensorMap* map = Lane() < kMaps ? &entry.q_map + Lane() : &entry.shape.pages.maps->k_map + (Lane() - kMaps);
      ptx::FenceTensorMapAcquire(map);
      ptx::TmaPrefetchMap(map);
    }
    __syncwarp();
  }

  // Moves section_ forward to the one that holds `tile`: numbers only grow. 32 sections a step.
  __device__ void FindSection(uint32_t tile) {
    for (;;) {
      const uint32_t candidate = section_ + 1 + Lane();
      const bool starts_at_or_before =
          candidate < launch_.section_count && launch_.sections[candidate].first_tile <= tile;
      const uint32_t steps = __popc(__ballot_sync(0xffffffffu, starts_at_or_before));
      section_ += steps;
      if (steps < 32) return;
    }
  }

  const ForwardLaunch& launch_;
  SharedStorage<Traits>& storage_;
  RingCursor<kTileSlots> slot_;
  uint32_t section_ = 0;
  int32_t acquired_sequence_ = -1;
};

}  // namespace tessera::cuda::sm90

#endif  // TESSERA_KERNELS_CUDA_SM90_TILE_SCHEDULER_H_
