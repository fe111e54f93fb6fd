// How the threads of a block share the copying of a tile's rows, global -> shared.
//
// 8 neighbouring threads copy one row, each every 8th chunk of it; a pass covers kThreads / 8 rows.
#ifndef TESSERA_KERNELS_CUDA_SM80_COPY_ROWS_H_
#define TESSERA_KERNELS_CUDA_SM80_COPY_ROWS_H_

#include <cstdint>

#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/sm80/padded_tile.h"

namespace tessera::cuda::sm80 {

template <typename Tile, int kThreads>
struct RowCopy {
  static constexpr int kLanes = 8;
  static constexpr int kRowsPerPass = kThreads / kLanes;
  static constexpr int kPasses = Tile::kRows / kRowsPerPass;
  static_assert(Tile::kRows % kRowsPerPass == 0, "whole passes");

  // This thread's row in pass 0, and the byte of a row where its chunks begin.
  static __device__ __forceinline__ int FirstRow() { return static_cast<int>(threadIdx.x) / kLanes; }
  static __device__ __forceinline__ int FirstByte() { return static_cast<int>(threadIdx.x) % kLanes * kChunkBytes; }

  // Where its first chunk lies in the tile at shared-memory address `tile`.
  static __device__ __forceinline__ uint32_t FirstChunk(uint32_t tile) {
    return tile + FirstRow() * Tile::kRowBytes + FirstByte();
  }

  // Starts copying this thread's chunks of row FirstRow() + pass * kRowsPerPass, the first of them from `source`. Of
  // the bytes from there on the first valid_bytes are read; the others, and all where !row_valid, become zeros.
  static __device__ __forceinline__ void Row(uint32_t first_chunk, int pass, const unsigned char* source,
                                             bool row_valid, int valid_bytes) {
#pragma unroll
    for (int chunk = 0; chunk < Tile::kChunks; chunk += kLanes) {
      const int byte = chunk * kChunkBytes;
      if (chunk + kLanes > Tile::kChunks && FirstByte() >= (Tile::kChunks - chunk) * kChunkBytes) break;
      ptx::AsyncCopy16(first_chunk + pass * kRowsPerPass * Tile::kRowBytes + byte, source + byte,
                       row_valid && byte < valid_bytes);
    }
  }
};

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_COPY_ROWS_H_
