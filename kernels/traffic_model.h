// Memory traffic of attention: bytes between the large memory (HBM, DRAM) and the chip.
#ifndef TESSERA_KERNELS_TRAFFIC_MODEL_H_
#define TESSERA_KERNELS_TRAFFIC_MODEL_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "kernels/attention.h"
#include "kernels/paged_attention.h"
#include "kernels/tile_planner.h"

namespace tessera {

// One operand's traffic, in bytes.
struct TrafficRow {
  absl::string_view operand;  // "Q", "K", "V", "S", "P", "O"
  int64_t standard_read = 0;
  int64_t standard_write = 0;
  int64_t tiled_read = 0;
  int64_t tiled_write = 0;
};

// At it the largest sum, K and V read anew for each of the row blocks, is 2^61 bytes and a little.
inline constexpr int64_t kMaxTrafficLength = int64_t{1} << 27;

// Full attention of one head, N rows over N keys.
//   standard: reads Q, K, V once, writes and reads back S and P (N x N each), writes O;
//   tiled, tile B: reads Q once and all of K and V for each of the ceil(N / B) row blocks, writes O; S and P stay on
//   chip.
// REQUIRES: n from 1 to kMaxTrafficLength, tile from kMinTile to kMaxTile, head_dim from 1 to kMaxHeadDim,
// element_bytes from 1 to 4.
struct TrafficTable {
  std::array<TrafficRow, 6> rows;

  // Column sums, operand "total".
  TrafficRow Total() const;
};
TrafficTable ModelTraffic(int64_t n, int64_t tile, int64_t head_dim, int64_t element_bytes);

// Floating-point operations of the same call: 4 N^2 d.
double ModelFlops(int64_t n, int64_t head_dim);

// Useful floating-point operations of one sequence, all query heads: 4 d for each visible (row, key) pair.
double ForwardFlops(const AttentionParams& params, const SequenceView& sequence);

// Bytes that a tiled kernel moves for one sequence, all heads: Q read, O and (where wanted) LSE written once, and for
// each block of `block_rows` rows the K and V rows that some row of it sees. The query heads of one key head are
// stacked into one list of rows (row r is head r % group of token r / group) and share each reading of K and V.
double ForwardBytes(const AttentionParams& params, const SequenceView& sequence, int64_t block_rows);

// The same over pages: K and V as wide as they are there, the new rows read and written once.
double PagedBytes(const PagedParams& params, const PagedSequence& sequence, int64_t block_rows);

}  // namespace tessera

#endif  // TESSERA_KERNELS_TRAFFIC_MODEL_H_
