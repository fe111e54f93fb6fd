// What the host tells the kernels for pages: plain structs in device memory.
//
// The unit of work is an item: the stacked rows of one row block of one key head of one sequence, against the keys of
// one split. Stacked row r is token r / group, query head kv_head * group + r % group. Items of a sequence are numbered
// split by split, within a split row block by row block, within a row block by key head; the (row block, key head)
// pairs are a sequence's lanes. Each lane's splits are combined by the block that finishes last.
#ifndef TESSERA_KERNELS_CUDA_PAGED_PAGED_TABLE_H_
#define TESSERA_KERNELS_CUDA_PAGED_PAGED_TABLE_H_

#include <cstdint>

#include "kernels/cuda/forward_table.h"
#include "kernels/cuda/score_map.h"

namespace tessera::cuda::paged {

struct alignas(16) PagedEntry {
  const int32_t* pages;
  void* k_pages;
  void* v_pages;
  const float* k_scales;  // [kv_heads], or null: 1
  const float* v_scales;
  const void* q;  // [q_len, q_heads, head_dim]
  void* o;
  float* lse;     // [q_len, q_heads], or null
  const void* k;  // [append_len, kv_heads, head_dim]
  const void* v;
  TensorStrides q_strides;
  TensorStrides o_strides;
  TensorStrides lse_strides;
  TensorStrides k_strides;
  TensorStrides v_strides;
  int64_t first_partial;   // floats, of lane 0; partial results of a lane lie split after split
  int32_t partial_floats;  // from one to the next
  int32_t first_counter;   // of lane 0
  int32_t q_len;
  int32_t kv_len;
  int32_t append_len;
  int32_t appends;  // whether the attending blocks append the new rows of their keys themselves
  int32_t row_blocks;
  int32_t first_key;  // of the first split: a multiple of split_keys
  int32_t split_keys;
  int32_t splits;
  int32_t reserved[2];
};

inline constexpr uint32_t kCarriedEntries = 4;

// One launch. Strides are in elements.
struct PagedLaunch {
  const PagedEntry* entries;    // null: they are the first of `carried`
  const uint32_t* first_items;  // [entry_count]: the number of each entry's first item
  uint32_t* counters;           // of finished splits; written, 0, by the kernel before
  float* partials;
  uint32_t entry_count;
  uint32_t item_count;
  int32_t kv_heads;
  int32_t group;  // query heads of a key head
  int32_t head_dim;
  int32_t page_shift;  // log2 of the tokens of a page
  int64_t page_stride;
  TensorStrides page_strides;  // within a page
  int32_t left;                // window sides, clamped to kUnboundedSide
  int32_t right;
  ScoreMap score_map;
  // Few entries travel with the launch, so that its blocks begin while the kernel before it is still at the counters.
  uint32_t carried_first_items[kCarriedEntries];
  PagedEntry carried[kCarriedEntries];
};

inline constexpr int kMostSplits = 64;  // of a lane

// Floats of one partial result of `rows` rows: o [rows, head_dim], not divided; then a RowSums for each. A multiple of
// four.
constexpr int64_t PartialFloats(int64_t rows, int64_t head_dim) { return rows * head_dim + (2 * rows + 3) / 4 * 4; }

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_PAGED_TABLE_H_
