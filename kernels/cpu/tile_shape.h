// How the CPU kernel cuts attention into tiles. Fixed numbers, the same on every SIMD target: a result's bits depend on
// where the tiles begin, and that must depend on nothing but the sequence.
#ifndef TESSERA_KERNELS_CPU_TILE_SHAPE_H_
#define TESSERA_KERNELS_CPU_TILE_SHAPE_H_

#include <algorithm>
#include <cstdint>

namespace tessera {

// A tile: this many rows against this many keys, the unit in which work is done or skipped. Tile (i, j) of a key head
// holds rows i * kTileRows and up, keys j * kTileKeys and up. A row is one (token, query head) pair; the query heads of
// a key head are stacked, row r being head r % group of token r / group. kTileRows is the widest panel, 3 vectors of 16
// floats, and a multiple of every other target's; kTileKeys is a multiple of the keys of a register block.
inline constexpr int64_t kTileRows = 48;
inline constexpr int64_t kTileKeys = 64;

// Rows of a block, the unit of work that a thread takes: whole tiles that share each packing of K and V. As many as
// keep Q and O of a block, in float32, below half of a 1 MiB L2 cache.
inline constexpr int64_t kMaxBlockRows = 768;
inline constexpr int64_t kBlockElements = int64_t{384} * 128;
constexpr int64_t BlockRows(int64_t head_dim) {
  return std::min(kMaxBlockRows, kBlockElements / head_dim / kTileRows * kTileRows);
}

// Floats from one key to the next in a packed tile of K or V: the largest head_dim, and a cache line more, so that
// the rows of a register block do not fall into the same sets of the L1 cache.
inline constexpr int64_t kKeyStride = 256 + 16;

}  // namespace tessera

#endif  // TESSERA_KERNELS_CPU_TILE_SHAPE_H_
