// How K and V reach a warp: a ring of tiles of its own, filled by its own asynchronous copies.
//
// The warps of a block take tiles in turn and never wait for each other. All buffers but the one in use are on their
// way, which is what keeps the memory busy: decoding is bound by it. Where a row lies follows from the page table; lane
// i looks up key i % 16 of a tile, one step before its copies start, and hands the place to the lanes that copy the
// row.
#ifndef TESSERA_KERNELS_CUDA_PAGED_KEY_VALUE_STREAM_H_
#define TESSERA_KERNELS_CUDA_PAGED_KEY_VALUE_STREAM_H_

#include <cstdint>

#include "kernels/cuda/paged/cached_tile.h"
#include "kernels/cuda/paged/paged_work.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/barrier.h"

namespace tessera::cuda::paged {

template <typename Cached, int kHeadDim, int kWarps, int kBuffers>
class KeyValueStream {
 public:
  using Tile = CachedTile<Cached, kHeadDim>;
  static constexpr int kWarpBytes = kBuffers * Tile::kBytes;
  static_assert(kBuffers >= 4 && kBuffers % 2 == 0, "K and V in use, and at least as much on its way");

  // The warp's tiles of work.keys: those beginning at FirstTile() + i * kTileKeys * kWarps. `shared`: kWarpBytes, the
  // warp's own.
  __device__ __forceinline__ KeyValueStream(const PagedLaunch& launch, const PagedWork& work, uint32_t shared)
      : launch_(launch),
        keys_(work.keys),
        pages_(work.entry.pages),
        k_base_(Base(launch, work, work.entry.k_pages)),
        v_base_(Base(launch, work, work.entry.v_pages)),
        valid_bytes_(launch.head_dim * static_cast<int>(sizeof(Cached)) - FirstChunk() * kChunkBytes),
        shared_(shared),
        next_key_(FirstTile(work) + Lane() % kTileKeys) {}

  static __device__ __forceinline__ int32_t FirstTile(const PagedWork& work) {
    return work.keys.begin / kTileKeys * kTileKeys + static_cast<int32_t>(threadIdx.x / 32) * kTileKeys;
  }

  // Starts the first kBuffers - 1 copies: K and V of all those tiles, but for the last one's V.
  __device__ __forceinline__ void Start() {
    int32_t page[kBuffers / 2 + 1];
#pragma unroll
    for (int i = 0; i <= kBuffers / 2; ++i) page[i] = Lookup(next_key_ + i * kStep);
#pragma unroll
    for (int i = 0; i < kBuffers / 2; ++i) {
      IssueKeys(2 * i, page[i]);
      if (i + 1 < kBuffers / 2) IssueValues(2 * i + 1);
    }
    page_ = page[kBuffers / 2];
  }

  // Bytes from the warp's shared memory to the next tile of K or V, complete for all lanes. Alternately, keys first, by
  // the whole warp. Gives the tile before it back and has another one copied into its place.
  __device__ __forceinline__ int WaitKeys() {
    Wait();
    IssueValues(buffer_ == 0 ? kBuffers - 1 : buffer_ - 1);
    return buffer_ * Tile::kBytes;
  }
  __device__ __forceinline__ int WaitValues() {
    Wait();
    IssueKeys(buffer_, page_);
    page_ = Lookup(next_key_);
    const int current = buffer_ + 1;
    buffer_ = current == kBuffers - 1 ? 0 : current + 1;
    return current * Tile::kBytes;
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

  __device__ __forceinline__ void Wait() const {
    ptx::AsyncCopyWait<kBuffers - 2>();
    __syncwarp();
  }

  // The page of a key; nothing is read for one that no row sees.
  __device__ __forceinline__ int32_t Lookup(int32_t key) const {
    return key >= keys_.begin && key < keys_.end ? __ldg(pages_ + (key >> launch_.page_shift)) : 0;
  }

  // Copies K of the next tile, whose pages are `page`. Rows that no row sees become zeros.
  __device__ __forceinline__ void IssueKeys(int buffer, int32_t page) {
    const int32_t key = next_key_;
    const int32_t slot = key & ((1 << launch_.page_shift) - 1);
    const int64_t elements = page * launch_.page_stride + slot * launch_.page_strides.token;
    const bool valid = key >= keys_.begin && key < keys_.end;
    place_ = valid ? elements * static_cast<int64_t>(sizeof(Cached)) : -1;
    copying_ = key - Lane() % kTileKeys < keys_.end;
    next_key_ += kStep;
    Issue<&Tile::KeyOffset>(buffer, k_base_);
  }

  // Copies V of the same tile.
  __device__ __forceinline__ void IssueValues(int buffer) { Issue<&Tile::ValueOffset>(buffer, v_base_); }

  // Past the last tile it commits an empty group, so that the count of groups in flight stays the same.
  template <int (*kOffset)(int row, int chunk)>
  __device__ __forceinline__ void Issue(int buffer, const unsigned char* base) {
    if (copying_) {
      const uint32_t tile = shared_ + buffer * Tile::kBytes;
#pragma unroll
      for (int pass = 0; pass < kPasses; ++pass) {
        const int row = pass * kRowsPerPass + Lane() / Tile::kRowChunks;
        const int64_t from = __shfl_sync(0xffffffffu, place_, row);
        const bool copied = from >= 0 && valid_bytes_ > 0;
        ptx::AsyncCopy16Once(tile + kOffset(row, FirstChunk()), base + (copied ? from : 0), copied);
      }
    }
    ptx::AsyncCopyCommit();
  }

  const PagedLaunch& launch_;
  const KeyRange keys_;
  const int32_t* const pages_;
  const unsigned char *const k_base_, *const v_base_;  // this lane's chunk of the head's row in page 0
  const int32_t valid_bytes_;                          // of a row, from this lane's chunk on
  const uint32_t shared_;
  int32_t next_key_;      // this lane's key of the tile whose K is copied next
  int32_t page_;          // and its page
  int64_t place_ = -1;    // bytes to this lane's row of the tile whose V is copied next; -1 for one that no row sees
  bool copying_ = false;  // whether that tile has a row that is seen
  int buffer_ = 0;        // of the keys to wait for
};

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_KEY_VALUE_STREAM_H_
