// Blocks of K and V that lie in pages, brought by a whole warp: each lane copies one box of neighbouring keys of one
// page, the lanes together the rows of a block.
//
// Each lane knows its page's number a block ahead, so that nothing waits for the page table. What the table has no page
// for, and what the last page has no key for, the copy engine fills up with zeros, as it does behind contiguous rows.
#ifndef TESSERA_KERNELS_CUDA_SM90_PAGED_BLOCKS_H_
#define TESSERA_KERNELS_CUDA_SM90_PAGED_BLOCKS_H_

#include <cstdint>

#include "kernels/cuda/ptx/tma.h"
#include "kernels/cuda/sm90/traits.h"

namespace tessera::cuda::sm90 {

// For one tile. Blocks are copied downwards, from info's last on. By one whole warp.
template <typename Traits>
class PagedBlocks {
 public:
  using KvLayout = typename Traits::KvLayout;

  __device__ PagedBlocks(const ForwardLaunch&, const TileInfo& info)
      : pages_(info.shape.pages), kv_head_(info.head / info.shape.kv_ratio), row_(Lane() << pages_.box_shift) {
    key_page_ = value_page_ = PageOf((info.blocks.end - 1) * Traits::kTileKeys + row_);
  }

  __device__ static bool Leads() { return Lane() == 0; }
  __device__ static void Join() { __syncwarp(); }

  // As ContiguousBlocks'.
  __device__ void CopyKeys(int32_t block, unsigned char* shared, uint64_t* full) {
    Copy(kKeys, key_page_, block, shared, full);
  }
  __device__ void CopyValues(int32_t block, unsigned char* shared, uint64_t* full) {
    Copy(kValues, value_page_, block, shared, full);
  }

 private:
  static constexpr int32_t kNoPage = -1;  // lies outside of every map
  static constexpr int kKeys = 0, kValues = 1, kToTail = 2;

  __device__ static int Lane() { return threadIdx.x % 32; }

  __device__ int32_t PageOf(int32_t key) const {
    const int32_t index = key >> pages_.page_shift;
    return index < 0 || index > pages_.last ? kNoPage : pages_.numbers[index];
  }

  // page: of this lane's box of `block`; becomes that of the block below.
  __device__ __forceinline__ void Copy(int map_number, int32_t& page, int32_t block, unsigned char* shared,
                                       uint64_t* full) {
    const int32_t key = block * Traits::kTileKeys + row_;
    if (row_ < Traits::kTileKeys) {
      const int32_t token = key & ((1 << pages_.page_shift) - 1);
      const bool tail = key >> pages_.page_shift >= pages_.last;
      const TensorMap* const map = &pages_.maps->k_map + (map_number + (tail ? kToTail : 0));
#pragma unroll
      for (int slab = 0; slab < KvLayout::kSlabs; ++slab) {
        ptx::TmaLoad4d(shared + slab * KvLayout::kSlabBytes + row_ * KvLayout::kRowBytes, map, full, ptx::kEvictLast,
                       slab * KvLayout::kSlabWidth, token, kv_head_, page);
      }
    }
    __syncwarp();
    page = PageOf(key - Traits::kTileKeys);
  }

  const KeyPages& pages_;  // in shared memory
  const int32_t kv_head_;
  const int32_t row_;              // of a block: the first that this lane copies
  int32_t key_page_, value_page_;  // of this lane's boxes of the next blocks
};

}  // namespace tessera::cuda::sm90

#endif  // TESSERA_KERNELS_CUDA_SM90_PAGED_BLOCKS_H_
