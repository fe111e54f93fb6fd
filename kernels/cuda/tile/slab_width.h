// The width of the slabs that 16-bit tiles are cut into in shared memory: host and device agree on it here.
#ifndef TESSERA_KERNELS_CUDA_TILE_SLAB_WIDTH_H_
#define TESSERA_KERNELS_CUDA_TILE_SLAB_WIDTH_H_

namespace tessera::tile {

// Columns: a swizzled row of 128 bytes where they divide head_dim, of 64 bytes otherwise.
constexpr int SlabWidth(int head_dim) { return head_dim % 64 == 0 ? 64 : 32; }

}  // namespace tessera::tile

#endif  // TESSERA_KERNELS_CUDA_TILE_SLAB_WIDTH_H_
