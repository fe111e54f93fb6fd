// What the host tells a forward kernel: plain structs in device memory, shared by every kernel.
//
// The unit of work is a tile: some query rows of one head of one sequence against all keys they see. Rows of a tile are
// numbered token by token, within a token by query head. group is 1, or, where a sequence has few queries, the number
// of query heads that share a key head, so that they share each reading of K and V. Each kRowUnit rows hold as many
// whole tokens as fit, rows left over do not exist: row r of a unit is token r / group of it, query head head * group +
// r % group.
#ifndef TESSERA_KERNELS_CUDA_FORWARD_TABLE_H_
#define TESSERA_KERNELS_CUDA_FORWARD_TABLE_H_

#include <cstdint>

#include "kernels/cuda/score_map.h"

namespace tessera::cuda {

// Opaque tensor map of the copy engine, the bytes of a CUtensorMap.
struct alignas(128) TensorMap {
  uint64_t words[16];
};

// Strides in elements between tokens and heads.
struct TensorStrides {
  int64_t token;
  int64_t head;
};

// Of a pool's pages: [pages, heads, tokens, head_dim].
struct PageMaps {
  TensorMap k_map;
  TensorMap v_map;
  TensorMap k_tail_map;  // of as many tokens as the last page has: what lies beyond reads as zeros
  TensorMap v_tail_map;
};

// Where K and V of a sequence lie that has them in pages: key j is row j % page_tokens of numbers[j / page_tokens].
struct KeyPages {
  const int32_t* numbers;  // null: K and V are contiguous. Else the entry's k, v and their strides are those of page 0.
  const PageMaps* maps;
  int64_t stride;      // elements
  int32_t last;        // index in `numbers`
  int16_t page_shift;  // log2 of page_tokens
  int16_t box_shift;   // log2 of the neighbouring keys that one copy brings
};

// A sequence's sizes and outputs: what is needed for each of its tiles.
struct alignas(16) SequenceShape {
  int32_t q_len;
  int32_t kv_len;
  int32_t group;            // query heads stacked into one head's rows
  int32_t tokens_per_unit;  // kRowUnit / group: tokens in each kRowUnit rows of a tile
  int32_t tokens_per_tile;
  int32_t kv_ratio;  // table heads per key head: 1 where stacked
  int32_t reserved[2];
  void* o;     // [q_len, q_heads, head_dim]
  float* lse;  // [q_len, q_heads], or null
  TensorStrides o_strides;
  TensorStrides lse_strides;
  KeyPages pages;
};

struct SequenceEntry {
  TensorMap q_map;  // [heads, tokens, group, head_dim]
  TensorMap k_map;  // [heads, tokens, head_dim]
  TensorMap v_map;
  TensorMap o_map;  // as q_map
  SequenceShape shape;
  const void* q;
  const void* k;
  const void* v;
  TensorStrides q_strides;
  TensorStrides k_strides;
  TensorStrides v_strides;
};

// A run of consecutive tile numbers: `lanes` (sequence, head) pairs of the same number of row blocks, the last row
// block first (with a causal mask it is the longest), all lanes within a row block.
struct alignas(16) TileSection {
  uint32_t first_tile;
  uint32_t lanes;
  uint32_t row_blocks;
  uint32_t
      first_sequence;  // lane l is head (first_head + l) % heads of sequence first_sequence + (first_head + l) / heads
  uint32_t first_head;
  uint32_t heads;  // table heads of each of its sequences
  uint32_t reserved[2];
};

// One launch.
struct ForwardLaunch {
  const SequenceEntry* sequences;
  const TileSection* sections;
  uint32_t* next_tile;  // starts at 0; tiles are handed out in order
  uint32_t section_count;
  uint32_t tile_count;
  int32_t q_heads;
  int32_t head_dim;
  int32_t left;  // window sides, clamped to kUnboundedSide, which no length reaches
  int32_t right;
  ScoreMap score_map;
  bool in_pages;  // K and V of all sequences; else of none
};

inline constexpr int kRowUnit = 64;  // rows; the tiles of every kernel are a multiple of it, or all of a smaller one
inline constexpr int32_t kUnboundedSide = 1 << 30;
inline constexpr int32_t kMaxLength = (1 << 30) - 1;

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_FORWARD_TABLE_H_
