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

// Calls visit(tile) for each tile of the block. By one thread; or by several, which `visit` leaves together and of
// which one leads.
template <typename Traits, typename Visit>
__device__ __forceinline__ void ForEachTile(SharedStorage<Traits>& storage, Visit visit, bool leads = true) {
  RingCursor<kTileSlots> tiles;
  for (;;) {
    ptx::BarrierWait(&storage.tile_full[tiles.index()], tiles.parity());
    const TileInfo& info = storage.tile[tiles.index()];
    if (info.sequence < 0) return;
    visit(info);
    if (leads) ptx::BarrierArrive(&storage.tile_empty[tiles.index()]);
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

// Blocks of contiguous K and V, for one tile. By one thread.
template <typename Traits>
class ContiguousBlocks {
 public:
  using KvLayout = typename Traits::KvLayout;

  __device__ ContiguousBlocks(const ForwardLaunch& launch, const TileInfo& info)
      : entry_(launch.sequences[info.sequence]), kv_head_(info.head / info.shape.kv_ratio) {}

  __device__ static constexpr bool Leads() { return true; }
  __device__ static void Join() {}

  // Copies of the block's rows of K or V to `shared`, which complete `full` by KvLayout::kBytes.
  __device__ void CopyKeys(int32_t block, unsigned char* shared, uint64_t* full) const {
    Copy(&entry_.k_map, block, shared, full);
  }
  __device__ void CopyValues(int32_t block, unsigned char* shared, uint64_t* full) const {
    Copy(&entry_.v_map, block, shared, full);
  }

 private:
  __device__ void Copy(const TensorMap* map, int32_t block, unsigned char* shared, uint64_t* full) const {
#pragma unroll
    for (int slab = 0; slab < KvLayout::kSlabs; ++slab) {
      ptx::TmaLoad3d(shared + slab * KvLayout::kSlabBytes, map, full, ptx::kEvictLast, slab * KvLayout::kSlabWidth,
                     block * Traits::kTileKeys, kv_head_);
    }
  }

  const SequenceEntry& entry_;
  const int32_t kv_head_;
};

// Blocks<Traits>: where K and V lie. Its Leads() says which of the threads that run this speaks for them, Join()
// brings them together.
template <typename Traits, template <typename> typename Blocks>
class KeyValueLoader {
 public:
  using Storage = SharedStorage<Traits>;
  using KvLayout = typename Traits::KvLayout;

  __device__ KeyValueLoader(const ForwardLaunch& launch, Storage& storage) : launch_(launch), storage_(storage) {}

  // By as many threads as Blocks wants.
  __device__ void Run() {
    ForEachTile(
        storage_, [this](const TileInfo& info) { Load(info); }, Blocks<Traits>::Leads());
  }

 private:
  static constexpr int kBlocksAhead = 2;

  __device__ void Load(const TileInfo& info) {
    Blocks<Traits> blocks(launch_, info);
    const int32_t begin = info.blocks.begin;
    int32_t block = info.blocks.end - 1;

    LoadKeys(blocks, block);
    // The next tile is asked for when its description will be ready in time and no earlier: a tile that waits here is
    // one that an idle block cannot take.
    if (block - begin < kBlocksAhead) WantTile();
    for (; block > begin; --block) {
      LoadKeys(blocks, block - 1);
      LoadValues(blocks, block);
      if (block - begin == kBlocksAhead) WantTile();
    }
    LoadValues(blocks, block);
    Blocks<Traits>::Join();
  }

  __device__ void WantTile() {
    if (Blocks<Traits>::Leads()) ptx::BarrierArrive(&storage_.tile_wanted);
  }

  __device__ void LoadKeys(Blocks<Traits>& blocks, int32_t block) {
    uint64_t* const full = &storage_.k_full[k_.index()];
    Expect(full, &storage_.k_empty[k_.index()], k_.parity());
    blocks.CopyKeys(block, storage_.k[k_.index()], full);
    k_.Advance();
  }

  __device__ void LoadValues(Blocks<Traits>& blocks, int32_t block) {
    uint64_t* const full = &storage_.v_full[v_.index()];
    Expect(full, &storage_.v_empty[v_.index()], v_.parity());
    blocks.CopyValues(block, storage_.v[v_.index()], full);
    v_.Advance();
  }

  // Waits for the buffer and announces the copies to it.
  __device__ void Expect(uint64_t* full, uint64_t* empty, uint32_t parity) {
    ptx::BarrierWait(empty, parity ^ 1);
    if (Blocks<Traits>::Leads()) ptx::BarrierArriveExpect(full, KvLayout::kBytes);
  }

  const ForwardLaunch& launch_;
  Storage& storage_;
  RingCursor<Traits::kStages> k_, v_;
};

}  // namespace tessera::cuda::sm90

#endif  // TESSERA_KERNELS_CUDA_SM90_LOAD_H_
