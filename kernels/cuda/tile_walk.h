// A tile of a launch, found from its number: for kernels that start one block a tile.
#ifndef TESSERA_KERNELS_CUDA_TILE_WALK_H_
#define TESSERA_KERNELS_CUDA_TILE_WALK_H_

#include <cstdint>

#include "kernels/cuda/forward_table.h"
#include "kernels/cuda/key_range.h"

namespace tessera::cuda {

struct TilePlace {
  const SequenceEntry* entry;
  int32_t head;         // table head
  int32_t first_token;
  KeyBlocks blocks;     // empty where the tile sees no key
};

// Row r of the tile: its token and query head; false where it does not exist.
__device__ __forceinline__ bool RowOfTile(const TilePlace& place, int32_t row, int32_t& token, int32_t& q_head) {
  const SequenceShape& shape = place.entry->shape;
  const int32_t token_in_unit = row % kRowUnit / shape.group;
  token = place.first_token + row / kRowUnit * shape.tokens_per_unit + token_in_unit;
  q_head = place.head * shape.group + row % kRowUnit % shape.group;
  const bool exists = token_in_unit < shape.tokens_per_unit && token < shape.q_len;
  if (!exists) token = shape.q_len - 1;
  return exists;
}

__device__ __forceinline__ TilePlace PlaceTile(const ForwardLaunch& launch, uint32_t tile, int32_t tile_keys) {
  uint32_t low = 0, high = launch.section_count - 1;  // the last section that starts at or before `tile`
  while (low < high) {
    const uint32_t middle = (low + high + 1) / 2;
    if (launch.sections[middle].first_tile <= tile) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const TileSection& section = launch.sections[low];
  const uint32_t index = tile - section.first_tile;
  const uint32_t lane = section.first_head + index % section.lanes;
  TilePlace place;
  place.entry = &launch.sequences[section.first_sequence + lane / section.heads];
  place.head = static_cast<int32_t>(lane % section.heads);
  const SequenceShape& shape = place.entry->shape;
  place.first_token = static_cast<int32_t>(section.row_blocks - 1 - index / section.lanes) * shape.tokens_per_tile;
  const int32_t last_token = min(place.first_token + shape.tokens_per_tile, shape.q_len) - 1;
  place.blocks = VisibleBlocks(place.first_token, last_token, shape.q_len, shape.kv_len, launch.left, launch.right,
                               tile_keys);
  return place;
}

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_TILE_WALK_H_
