// The load warps: keep the copy engine ahead of the consumers, one with Q, one with K and V.
//
// For each tile the one loads Q as soon as the tile is known and a buffer is free; the other loads the last K block,
// then K and V blocks downwards. Every buffer has a full barrier (the copy's bytes have arrived) and an empty one (it
// has been read).
#ifndef TESSERA_KERNELS_CUDA_SM90_LOAD_H_
#define TESSERA_KERNELS_CUDA_SM90_LOAD_H_

#include "kernels/cuda/ptx/barrier.h"
#include "kernels/cuda/ptx/tma.h"
#include "kernels/cuda/sm90/traits.h"

namespace tessera::cuda::sm90 {

// Calls visit(tile) for each tile of the block. By one thread.
template <typename Traits, typename Visit>
__device__ __forceinline__ void ForEachTile(SharedStorage<Traits>& storage, Visit visit) {
  RingCursor<kTileSlots> tiles;
  for (;;) {
    ptx::BarrierWait(&storage.tile_full[tiles.index()], tiles.parity());
    const TileInfo& info = storage.tile[tiles.index()];
    if (info.sequence < 0) return;
    visit(info);
    ptx::BarrierArrive(&storage.tile_empty[tiles.index()]);
    tiles.Advance();
  }
}

template <typename Traits>
class QueryLoader {
 public:
  using Storage = SharedStorage<Traits>;
  using QLayout = typename Traits::QLayout;

  __device__ QueryLoader(const ForwardLaunch& launch, Storage& storage) : launch_(launch), storage_(storage) {}

  // By one thread.
  __device__ void Run() {
    ForEachTile(storage_, [this](const TileInfo& info) { Load(info); });
  }

 private:
  // Each warpgroup's rows on their own: the first to be done with its tile need not wait for the others.
  __device__ void Load(const TileInfo& info) {
    const TensorMap* map = &launch_.sequences[info.sequence].q_map;
    const uint32_t bytes = info.shape.tokens_per_unit * info.shape.group * QLayout::kRowBytes * QLayout::kSlabs;
    for (int warpgroup = 0; warpgroup < Traits::kConsumers; ++warpgroup) {
      uint64_t* const full = &storage_.q_full[buffer_.index()][warpgroup];
      ptx::BarrierWait(&storage_.q_empty[buffer_.index()][warpgroup], buffer_.parity() ^ 1);
      ptx::BarrierArriveExpect(full, bytes);
#pragma unroll
      for (int slab = 0; slab < QLayout::kSlabs; ++slab) {
        ptx::TmaLoad4d(storage_.q[buffer_.index()][warpgroup] + slab * QLayout::kSlabBytes, map, full, ptx::kEvictFirst,
                       slab * QLayout::kSlabWidth, 0, info.first_token + warpgroup * info.shape.tokens_per_unit,
                       info.head);
      }
    }
    buffer_.Advance();
  }

  const ForwardLaunch& launch_;
  Storage& storage_;
  RingCursor<Traits::kQueryBuffers> buffer_;
};

template <typename Traits>
class KeyValueLoader {
 public:
  using Storage = SharedStorage<Traits>;
  using KvLayout = typename Traits::KvLayout;

  __device__ KeyValueLoader(const ForwardLaunch& launch, Storage& storage) : launch_(launch), storage_(storage) {}

  // By one thread.
  __device__ void Run() {
    ForEachTile(storage_, [this](const TileInfo& info) { Load(info); });
  }

 private:
  static constexpr int kBlocksAhead = 2;

  __device__ void Load(const TileInfo& info) {
    const SequenceEntry& entry = launch_.sequences[info.sequence];
    const int32_t kv_head = info.head / info.shape.kv_ratio;
    const int32_t begin = info.blocks.begin;
    int32_t block = info.blocks.end - 1;

    LoadKeys(entry, kv_head, block);
    // The next tile is asked for when its description will be ready in time and no earlier: a tile that waits here is
    // one that an idle block cannot take.
    if (block - begin < kBlocksAhead) ptx::BarrierArrive(&storage_.tile_wanted);
    for (; block > begin; --block) {
      LoadKeys(entry, kv_head, block - 1);
      LoadValues(entry, kv_head, block);
      if (block - begin == kBlocksAhead) ptx::BarrierArrive(&storage_.tile_wanted);
    }
    LoadValues(entry, kv_head, block);
  }

  __device__ void LoadKeys(const SequenceEntry& entry, int32_t kv_head, int32_t block) {
    LoadBlock(storage_.k[k_.index()], &entry.k_map, &storage_.k_full[k_.index()], &storage_.k_empty[k_.index()],
              k_.parity(), kv_head, block);
    k_.Advance();
  }

  __device__ void LoadValues(const SequenceEntry& entry, int32_t kv_head, int32_t block) {
    LoadBlock(storage_.v[v_.index()], &entry.v_map, &storage_.v_full[v_.index()], &storage_.v_empty[v_.index()],
              v_.parity(), kv_head, block);
    v_.Advance();
  }

  __device__ void LoadBlock(unsigned char* shared, const TensorMap* map, uint64_t* full, uint64_t* empty,
                            uint32_t parity, int32_t kv_head, int32_t block) {
    ptx::BarrierWait(empty, parity ^ 1);
    ptx::BarrierArriveExpect(full, KvLayout::kBytes);
#pragma unroll
    for (int slab = 0; slab < KvLayout::kSlabs; ++slab) {
      ptx::TmaLoad3d(shared + slab * KvLayout::kSlabBytes, map, full, ptx::kEvictLast, slab * KvLayout::kSlabWidth,
                     block * Traits::kTileKeys, kv_head);
    }
  }

  const ForwardLaunch& launch_;
  Storage& storage_;
  RingCursor<Traits::kStages> k_, v_;
};

}  // namespace tessera::cuda::sm90

#endif  // TESSERA_KERNELS_CUDA_SM90_LOAD_H_
