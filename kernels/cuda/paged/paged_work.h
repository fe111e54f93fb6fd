// What a block of threads works on, found from its number.
#ifndef TESSERA_KERNELS_CUDA_PAGED_PAGED_WORK_H_
#define TESSERA_KERNELS_CUDA_PAGED_PAGED_WORK_H_

#include <cstdint>

#include "kernels/cuda/key_range.h"
#include "kernels/cuda/paged/paged_table.h"

namespace tessera::cuda::paged {

// A stacked row in its sequence.
struct RowPlace {
  int32_t token;
  int32_t q_head;
};

__device__ __forceinline__ ScoreMap ScaledBy(float key_scale, ScoreMap map) {
  if (map.applies) {
    map.scale *= key_scale;
    map.tanh_log2 *= key_scale;
  } else {
    map.factor_log2 *= key_scale;
  }
  return map;
}

struct PagedWork {
  PagedEntry entry;
  int32_t kv_head;
  int32_t lane;
  int32_t split;
  int32_t first_row;  // stacked
  int32_t rows;       // 1 .. tile rows
  KeyRange split_range;
  KeyRange keys;    // of the split, those that some row sees
  KeyRange whole;   // of these, those that every row sees
  ScoreMap scores;  // the launch's, times the scale of the head's keys
  float value_scale;

  __device__ __forceinline__ RowPlace Place(const PagedLaunch& launch, int row) const {
    const int32_t stacked = first_row + row;
    const int32_t token = stacked / launch.group;
    return {token, kv_head * launch.group + stacked - token * launch.group};
  }

  // Whether some row hides a key that another one sees.
  __device__ __forceinline__ bool any_masked() const { return keys.begin < whole.begin || whole.end < keys.end; }

  // Keys of the split that the row sees; rows that do not exist see what the last one sees.
  __device__ __forceinline__ KeyRange VisibleTo(const PagedLaunch& launch, int row) const {
    const int32_t token = (first_row + min(row, rows - 1)) / launch.group;
    const KeyRange all = VisibleKeys(token, entry.q_len, entry.kv_len, launch.left, launch.right);
    return {max(all.begin, split_range.begin), min(all.end, split_range.end)};
  }

  // The partial result of a split of this lane.
  __device__ __forceinline__ float* Partial(const PagedLaunch& launch, int32_t of_split) const {
    const int64_t index = int64_t{lane} * entry.splits + of_split;
    return launch.partials + entry.first_partial + index * entry.partial_floats;
  }
};

// Elements from the beginning of the pages to a key's row of head 0.
__device__ __forceinline__ int64_t KeyPlace(const PagedLaunch& launch, const PagedEntry& entry, int32_t key) {
  const int32_t slot = key & ((1 << launch.page_shift) - 1);
  return entry.pages[key >> launch.page_shift] * launch.page_stride + slot * launch.page_strides.token;
}

// The entry that item number `item` belongs to. By a whole warp: it looks at 32 entries a step.
__device__ __forceinline__ uint32_t FindEntry(const PagedLaunch& launch, uint32_t item) {
  const uint32_t thread = threadIdx.x % 32;
  if (launch.entries == nullptr) {
    const bool starts_before = thread < launch.entry_count && launch.carried_first_items[thread] <= item;
    return __popc(__ballot_sync(0xffffffffu, starts_before)) - 1;
  }
  uint32_t first = 0;
  for (uint32_t span = launch.entry_count; span > 1;) {
    const uint32_t step = (span + 31) / 32;
    const uint32_t offset = thread * step;
    const bool starts_before = offset < span && launch.first_items[first + offset] <= item;
    const uint32_t steps = __popc(__ballot_sync(0xffffffffu, starts_before)) - 1;
    first += steps * step;
    span = min(step, span - steps * step);
  }
  return first;
}

// Fills `work`, in shared memory, for item blockIdx.x in row blocks of kTileRows. By the whole block.
template <int kTileRows>
__device__ __forceinline__ void FindWork(const PagedLaunch& launch, PagedWork& work) {
  if (threadIdx.x < 32) {
    const uint32_t found = FindEntry(launch, blockIdx.x);
    const bool carried = launch.entries == nullptr;
    constexpr int kWords = sizeof(PagedEntry) / sizeof(uint4);
    static_assert(kWords <= 32, "a lane copies one");
    if (threadIdx.x < kWords) {
      const PagedEntry* const from = carried ? &launch.carried[found] : &launch.entries[found];
      reinterpret_cast<uint4*>(&work.entry)[threadIdx.x] = reinterpret_cast<const uint4*>(from)[threadIdx.x];
    }
    const uint32_t first_item = carried ? launch.carried_first_items[found] : launch.first_items[found];
    __syncwarp();
    if (threadIdx.x == 0) {
      const PagedEntry& entry = work.entry;
      const uint32_t index = blockIdx.x - first_item;
      const uint32_t lanes = static_cast<uint32_t>(entry.row_blocks) * launch.kv_heads;
      work.split = static_cast<int32_t>(index / lanes);
      work.lane = static_cast<int32_t>(index % lanes);
      work.kv_head = work.lane % launch.kv_heads;
      work.first_row = work.lane / launch.kv_heads * kTileRows;
      work.rows = min(kTileRows, entry.q_len * launch.group - work.first_row);
      const int32_t begin = entry.first_key + work.split * entry.split_keys;
      work.split_range = {begin, min(begin + entry.split_keys, entry.kv_len)};
      const KeyRange low = work.VisibleTo(launch, 0);
      const KeyRange high = work.VisibleTo(launch, work.rows - 1);
      work.keys = {low.begin, max(low.begin, high.end)};
      work.whole = {high.begin, low.end};
      work.scores = ScaledBy(entry.k_scales == nullptr ? 1.0f : entry.k_scales[work.kv_head], launch.score_map);
      work.value_scale = entry.v_scales == nullptr ? 1.0f : entry.v_scales[work.kv_head];
    }
  }
  __syncthreads();
}

}  // namespace tessera::cuda::paged

#endif  // TESSERA_KERNELS_CUDA_PAGED_PAGED_WORK_H_
