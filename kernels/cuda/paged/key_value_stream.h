// How K and V reach a warp: a ring of tiles of its own, filled by its own asynchronous copies.
//
// The warps of a block take tiles in turn and never wait for each other. All tiles but the one in use are on their way,
// which is what keeps the memory busy: decoding is bound by it. Where a row lies follows from the page table; lane i
// looks up key i % 16 of a tile, one step before its copies start, and hands the place to the lanes that copy the row.
#ifndef TESSERA_KERNELS_CUDA_PAGED_KEY_VALUE_STREAM_H_
#define TESSERA_KERNELS_CUDA_PAGED_KEY_VALUE_STREAM_H_

#include <cstdint>

#include "kernels/cuda/paged/cached_tile.h"
#include "kernels/cuda/paged/paged_work.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/barrier.h"

namespace tessera::cuda::paged {

template <typename Cached, int kHeadDim, int kWarps, int kStages>
class KeyValueStream {
 public:
  using Tile = CachedTile<Cached, kHeadDim>;
  static constexpr int kStageBytes = 2 * Tile::kBytes;  // K, then V
  static constexpr int kWarpBytes = kStages * kStageBytes;
  static_assert(kStages >= 2, "one tile in use, one on its way");

  // The warp's tiles of work.keys: those beginning at first_tile() + i * kTileKeys * kWarps. `shared`: kWarpBytes, the
  // warp's own.
  __device__ __forceinline__ KeyValueStream(const PagedLaunch& launch, const PagedWork& work, uint32_t shared)
      : launch_(launch),
        keys_(work.keys),
        pages_(work.entry->pages),
        k_base_(Base(launch, work, work.entry->k_pages)),
        v_base_(Base(launch, work, work.entry->v_pages)),
        valid_bytes_(launch.head_dim * static_cast<int>(sizeof(Cached)) - FirstChunk() * kChunkBytes),
        shared_(shared),
        next_key_(FirstTile(work) + Lane() % kTileKeys) {}

  static __device__ __forceinline__ int32_t FirstTile(const PagedWork& work) {
    return work.keys.begin / kTileKeys * kTileKeys + static_cast<int32_t>(threadIdx.x / 32) * kTileKeys;
  }

  // Starts the first kStages - 1 copies.
  __device__ __forceinline__ void Start() {
    int32_t page[kStages];
#pragma unroll
    for (int i = 0; i < kStages; ++i) page[i] = Lookup(next_key_ + i * kStep);
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) Issue(i, page[i]);
    page_ = page[kStages - 1];
  }

  // Bytes from the warp's shared memory to the next tile's K, complete for all lanes; its V follows. Gives the tile
  // before it back and has another one copied into its place. By the whole warp.
  __device__ __forceinline__ int Wait() {
    ptx::AsyncCopyWait<kStages - 2>();
    __syncwarp();
    const int current = stage_;
    Issue(current == 0 ? kStages - 1 : current - 1, page_);
    page_ = Lookup(next_key_);
    stage_ = current == kStages - 1 ? 0 : current + 1;
    return current * kStageBytes;
  }

 private:
  static constexpr int kStep = kTileKeys * kWarps;
  static constexpr int kRowsPerPass = 32 / Tile::kRowChunks;
  static constexpr int kPasses = kTileKeys / kRowsPerPass;
  static_assert(Tile::kRowChunks <= 32);

  static __device__ __forceinline__ int Lane() { return threadIdx.x % 32; }
  static __device__ __forceinline__ int FirstChunk() { return Lane() % Tile::kRowChunks; }

  static __device__ __forceinline__ const unsigned char* Base(const PagedLaunch& launch, const PagedWork& work,
                                                              const void* pages) {
    return static_cast<const unsigned char*>(pages) +
           work.kv_head * launch.page_strides.head * static_cast<int64_t>(sizeof(Cached)) + FirstChunk() * kChunkBytes;
  }

  // The page of a key; nothing is read for one that no row sees.
  __device__ __forceinline__ int32_t Lookup(int32_t key) const {
    return key >= keys_.begin && key < keys_.end ? __ldg(pages_ + (key >> launch_.page_shift)) : 0;
  }

  // Copies the next tile; rows that no row sees become zeros. Past the last one it commits an empty group, so that the
  // count of groups in flight stays the same.
  __device__ __forceinline__ void Issue(int stage, int32_t page) {
    const int32_t key = next_key_;
    if (key - Lane() % kTileKeys < keys_.end) {
      const int32_t slot = key & ((1 << launch_.page_shift) - 1);
      const bool valid = key >= keys_.begin && key < keys_.end;
      const int64_t elements = page * launch_.page_stride + slot * launch_.page_strides.token;
      const int64_t place = valid ? elements * static_cast<int64_t>(sizeof(Cached)) : -1;
      const uint32_t k_tile = shared_ + stage * kStageBytes;
      const uint32_t v_tile = k_tile + Tile::kBytes;
#pragma unroll
      for (int pass = 0; pass < kPasses; ++pass) {
        const int row = pass * kRowsPerPass + Lane() / Tile::kRowChunks;
        const int64_t from = __shfl_sync(0xffffffffu, place, row);
        const bool copied = from >= 0 && valid_bytes_ > 0;
        const int64_t offset = copied ? from : 0;
        ptx::AsyncCopy16(k_tile + Tile::KeyOffset(row, FirstChunk()), k_base_ + offset, copied);
        ptx::AsyncCopy16(v_tile + Tile::ValueOffset(row, FirstChunk()), v_base_ + offset, copied);
      }
    }
    ptx::AsyncCopyCommit();
    next_key_ += kStep;
  }

  const PagedLaunch& launch_;
  const KeyRange keys_;
  const int32_t* const pages_;
  const unsigned char *const k_base_, *const v_base_;  // this lane's chunk of the head's row in page 0
  const int32_t valid_bytes_;                          // of a row, from this lane's chunk on
  const uint32_t shared_;
  int32_t next_key_;  // this lane's key of the tile to copy next
  int32_t page_;      // and its page
  int stage_ = 0;     // of the tile to wait for
};

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_KEY_VALUE_STREAM_H_
