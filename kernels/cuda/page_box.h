// Boxes: the neighbouring keys of a page that one copy brings into a tile.
#ifndef TESSERA_KERNELS_CUDA_PAGE_BOX_H_
#define TESSERA_KERNELS_CUDA_PAGE_BOX_H_

#include <algorithm>
#include <cstdint>

namespace tessera::cuda {

// Of a slab's rows. With smaller copies the copy engine falls behind the products (docs/kv_cache.md has the figures).
inline constexpr int64_t kLeastBoxBytes = 4096;

// As many keys as divide both, a power of two, as page_tokens is.
constexpr int64_t BoxKeys(int64_t page_tokens, int tile_keys) {
  return std::min<int64_t>(page_tokens, tile_keys & -tile_keys);
}

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_PAGE_BOX_H_
