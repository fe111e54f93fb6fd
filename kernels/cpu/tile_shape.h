// How the CPU kernel cuts attention into tiles. Fixed numbers, the same on every SIMD target: a result's bits depend on
// where the tiles begin, and that must depend on nothing but the sequence.
#ifndef TESSERA_KERNELS_CPU_TILE_SHAPE_H_
#define TESSERA_KERNELS_CPU_TILE_SHAPE_H_

#include <cstdint>

namespace tessera {

// Rows of a block: one unit of work. A row is one (token, query head) pair; the query heads of a key head are stacked,
// row r being head r % group of token r / group. A multiple of every target's panel (3 vectors: 48, 24, 12 or 3 rows).
inline constexpr int64_t kBlockRows = 192;

// Keys of a tile. Tile t holds keys t * kTileKeys and up. A multiple of the keys of a register block.
inline constexpr int64_t kTileKeys = 64;

// Floats from one key to the next in a packed tile of K or V: the largest head_dim, and a cache line more, so that
// the rows of a register block do not fall into the same sets of the L1 cache.
inline constexpr int64_t kKeyStride = 256 + 16;

}  // namespace tessera

#endif  // TESSERA_KERNELS_CPU_TILE_SHAPE_H_
