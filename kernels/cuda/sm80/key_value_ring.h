// A ring of tile buffers in shared memory that K and V blocks pass through: K(n), V(n), K(n - 1), V(n - 1), ...
//
// A block of threads waits for the next tile, uses it, and by waiting for the one after it gives its buffer back. So
// kBuffers - 1 copies are in flight while one tile is used, and there is one barrier a tile.
#ifndef TESSERA_KERNELS_CUDA_SM80_KEY_VALUE_RING_H_
#define TESSERA_KERNELS_CUDA_SM80_KEY_VALUE_RING_H_

#include <cstdint>

#include "kernels/cuda/forward_table.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/sm80/block_work.h"
#include "kernels/cuda/sm80/copy_rows.h"

namespace tessera::cuda::sm80 {

template <typename Tile, int kBuffers, int kThreads>
class KeyValueRing {
 public:
  static constexpr int kBytes = kBuffers * Tile::kBytes;
  static_assert(kBuffers >= 2, "one tile in use, one on its way");

  // Blocks work.blocks.end - 1 down to work.blocks.begin of the tile's key head. work: in shared memory, like the
  // kBytes bytes at address `shared`.
  __device__ __forceinline__ KeyValueRing(uint32_t shared, const BlockWork& work, int32_t head_dim)
      : shared_(shared), valid_bytes_(head_dim * kElementBytes - Copy::FirstByte()), rows_(work.rows) {
    const SequenceEntry& entry = *work.tile.entry;
    const int32_t first_row = (work.blocks.end - 1) * Tile::kRows + Copy::FirstRow();
    keys_ = Seek(entry.k, entry.k_strides, work.tile.kv_head(), first_row);
    values_ = Seek(entry.v, entry.v_strides, work.tile.kv_head(), first_row);
    rows_left_ = entry.shape.kv_len - first_row;
  }

  // Starts the first kBuffers - 1 copies, each a group of asynchronous copies.
  __device__ __forceinline__ void Start() {
#pragma unroll
    for (int buffer = 0; buffer < kBuffers - 1; ++buffer) {
      if (buffer % 2 == kKeys) Issue<kKeys>(buffer, rows_);
      if (buffer % 2 == kValues) Issue<kValues>(buffer, rows_);
    }
  }

  // Waits for this thread's groups of copies committed before Start. REQUIRES: no tile has been waited for.
  __device__ __forceinline__ void WaitEarlierCopies() { ptx::AsyncCopyWait<kBuffers - 1>(); }

  // The address of the next K or V tile, complete for all threads. By all threads, alternately, keys first.
  __device__ __forceinline__ uint32_t WaitKeys() { return Wait<kKeys>(); }
  __device__ __forceinline__ uint32_t WaitValues() { return Wait<kValues>(); }

 private:
  using Copy = RowCopy<Tile, kThreads>;
  static constexpr int kElementBytes = sizeof(typename Tile::Element);
  static constexpr int kKeys = 0, kValues = 1;

  static __device__ __forceinline__ const unsigned char* Seek(const void* base, const TensorStrides& strides,
                                                              int32_t kv_head, int32_t row) {
    const int64_t offset = row * strides.token + kv_head * strides.head;
    return static_cast<const unsigned char*>(base) + Copy::FirstByte() + offset * kElementBytes;
  }

  template <int kKind>
  __device__ __forceinline__ uint32_t Wait() {
    const KeyValueRows rows = rows_;  // read while the copies are waited for
    ptx::AsyncCopyWait<kBuffers - 2>();
    __syncthreads();
    const int current = kBuffers == 2 ? kKind : next_;
    Issue<(kKind + kBuffers - 1) % 2>(current == 0 ? kBuffers - 1 : current - 1, rows);
    next_ = current == kBuffers - 1 ? 0 : current + 1;
    return shared_ + current * Tile::kBytes;
  }

  // Past the last block it commits an empty group, so that the count of groups in flight stays the same.
  template <int kKind>
  __device__ __forceinline__ void Issue(int buffer, const KeyValueRows& rows) {
    if (rows_left_ + Copy::FirstRow() <= rows.from_last_block) {
      const unsigned char*& next = kKind == kKeys ? keys_ : values_;
      const int64_t stride = kKind == kKeys ? rows.key_stride : rows.value_stride;
      const uint32_t first_chunk = Copy::FirstChunk(shared_ + buffer * Tile::kBytes);
      const unsigned char* source = next;
#pragma unroll
      for (int pass = 0; pass < Copy::kPasses; ++pass) {
        Copy::Row(first_chunk, pass, source, pass * Copy::kRowsPerPass < rows_left_, valid_bytes_);
        source += Copy::kRowsPerPass * stride;
      }
      next -= Tile::kRows * stride;
    }
    ptx::AsyncCopyCommit();
    if (kKind == kValues) rows_left_ += Tile::kRows;
  }

  const uint32_t shared_;
  const int32_t valid_bytes_;  // of a row, from this thread's first chunk on
  const KeyValueRows& rows_;
  const unsigned char *keys_, *values_;  // this thread's first chunk of the block to copy next
  int32_t rows_left_;                    // from this thread's row of the block to copy next to the sequence's end
  int next_ = 0;                         // the buffer of the next tile to wait for
};

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_KEY_VALUE_RING_H_
