// The tile of query rows that a block of threads computes, and where its rows lie.
#ifndef TESSERA_KERNELS_CUDA_SM80_ROW_TILE_H_
#define TESSERA_KERNELS_CUDA_SM80_ROW_TILE_H_

#include <cstdint>

#include "kernels/cuda/forward_table.h"
#include "kernels/cuda/key_range.h"
#include "kernels/cuda/sm80/copy_rows.h"

namespace tessera::cuda::sm80 {

// A row of a tile in its sequence.
struct RowPlace {
  int32_t token;  // the last one where !exists
  int32_t q_head;
  bool exists;  // inside the tile and the sequence
};

struct RowTile {
  const SequenceEntry* entry;
  int32_t head;  // table head
  int32_t first_token;

  __device__ __forceinline__ const SequenceShape& shape() const { return entry->shape; }
  __device__ __forceinline__ int32_t kv_head() const { return head / shape().kv_ratio; }
  __device__ __forceinline__ int32_t last_token() const {
    return min(first_token + shape().tokens_per_tile, shape().q_len) - 1;
  }

  // row: 0 .. rows of the kernel's tile - 1.
  __device__ __forceinline__ RowPlace Place(int row) const {
    const int32_t group = shape().group;
    const int32_t row_in_unit = row % kRowUnit;
    const int32_t token_in_unit = group == 1 ? row_in_unit : row_in_unit / group;
    const int32_t token = first_token + row / kRowUnit * shape().tokens_per_unit + token_in_unit;
    const bool exists = token_in_unit < shape().tokens_per_unit && token < shape().q_len;
    return {exists ? token : shape().q_len - 1, head * group + (row_in_unit - token_in_unit * group), exists};
  }

  __device__ __forceinline__ KeyRange VisibleTo(const ForwardLaunch& launch, int row) const {
    return VisibleKeys(Place(row).token, shape().q_len, shape().kv_len, launch.left, launch.right);
  }

  // Blocks of `width` keys.
  __device__ __forceinline__ KeyBlocks Blocks(const ForwardLaunch& launch, int32_t width) const {
    return VisibleBlocks(first_token, last_token(), shape().q_len, shape().kv_len, launch.left, launch.right, width);
  }
};

// Tile number `tile` of the launch. By whole warps. The search looks at 32 sections a step.
__device__ __forceinline__ RowTile FindTile(const ForwardLaunch& launch, uint32_t tile) {
  const uint32_t lane = threadIdx.x % 32;
  uint32_t first = 0;
  for (uint32_t span = launch.section_count; span > 1;) {
    const uint32_t step = (span + 31) / 32;
    const uint32_t offset = lane * step;
    const bool starts_before = offset < span && launch.sections[first + offset].first_tile <= tile;
    const uint32_t steps = __popc(__ballot_sync(0xffffffffu, starts_before)) - 1;
    first += steps * step;
    span = min(step, span - steps * step);
  }
  const TileSection section = launch.sections[first];
  const uint32_t index = tile - section.first_tile;
  const uint32_t head = section.first_head + index % section.lanes;
  const SequenceEntry* entry = launch.sequences + section.first_sequence + head / section.heads;
  const uint32_t row_block = section.row_blocks - 1 - index / section.lanes;
  return {entry, static_cast<int32_t>(head % section.heads),
          static_cast<int32_t>(row_block) * entry->shape.tokens_per_tile};
}

// Starts copying the tile's query rows; rows that do not exist become zeros.
template <typename Tile, int kThreads>
__device__ __forceinline__ void CopyQueries(const ForwardLaunch& launch, const RowTile& rows, uint32_t shared) {
  using Copy = RowCopy<Tile, kThreads>;
  constexpr int kElementBytes = sizeof(typename Tile::Element);
  const int32_t valid_bytes = launch.head_dim * kElementBytes - Copy::FirstByte();
  const auto* base = static_cast<const unsigned char*>(rows.entry->q) + Copy::FirstByte();
#pragma unroll
  for (int pass = 0; pass < Copy::kPasses; ++pass) {
    const RowPlace place = rows.Place(Copy::FirstRow() + pass * Copy::kRowsPerPass);
    const int64_t offset = place.token * rows.entry->q_strides.token + place.q_head * rows.entry->q_strides.head;
    Copy::Row(Copy::FirstChunk(shared), pass, base + offset * kElementBytes, place.exists, valid_bytes);
  }
}

}  // namespace tessera::cuda::sm80

#endif  // TESSERA_KERNELS_CUDA_SM80_ROW_TILE_H_
