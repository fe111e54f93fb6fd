#include "kernels/traffic_model.h"

#include <algorithm>

#include "kernels/mask.h"

namespace tessera {

TrafficRow TrafficTable::Total() const {
  TrafficRow total{.operand = "total"};
  for (const TrafficRow& row : rows) {
    total.standard_read += row.standard_read;
    total.standard_write += row.standard_write;
    total.tiled_read += row.tiled_read;
    total.tiled_write += row.tiled_write;
  }
  return total;
}

TrafficTable ModelTraffic(int64_t n, int64_t tile, int64_t head_dim, int64_t element_bytes) {
  const int64_t operand = n * head_dim * element_bytes;
  const int64_t scores = n * n * element_bytes;
  const int64_t row_blocks = (n + tile - 1) / tile;
  return {{{{.operand = "Q", .standard_read = operand, .tiled_read = operand},
            {.operand = "K", .standard_read = operand, .tiled_read = operand * row_blocks},
            {.operand = "V", .standard_read = operand, .tiled_read = operand * row_blocks},
            {.operand = "S", .standard_read = scores, .standard_write = scores},
            {.operand = "P", .standard_read = scores, .standard_write = scores},
            {.operand = "O", .standard_write = operand, .tiled_write = operand}}}};
}

double ModelFlops(int64_t n, int64_t head_dim) {
  return 4.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(head_dim);
}

double ForwardFlops(const AttentionParams& params, const SequenceView& sequence) {
  const MaskGeometry mask(params.mask, sequence.q_len, sequence.kv_len);
  return 4.0 * params.head_dim * params.q_heads * static_cast<double>(mask.VisiblePairs());
}

double ForwardBytes(const AttentionParams& params, const SequenceView& sequence, int64_t block_rows) {
  const MaskGeometry mask(params.mask, sequence.q_len, sequence.kv_len);
  const int64_t group = params.q_heads / params.kv_heads;
  const int64_t rows = sequence.q_len * group;
  double keys_read = 0;  // for one key head
  for (int64_t first = 0; first < rows; first += block_rows) {
    const int64_t last = std::min(first + block_rows, rows) - 1;
    keys_read += static_cast<double>(mask.VisibleToAny(first / group, last / group).size());
  }
  const double element_row = static_cast<double>(SizeOf(params.dtype)) * params.head_dim;
  const double query_rows = static_cast<double>(sequence.q_len) * params.q_heads;
  double bytes = 2 * query_rows * element_row + 2 * keys_read * params.kv_heads * element_row;
  if (sequence.lse != nullptr) bytes += query_rows * sizeof(float);
  return bytes;
}

double PagedBytes(const PagedParams& params, const PagedSequence& sequence, int64_t block_rows) {
  const AttentionParams& attention = params.attention;
  const SequenceView lengths = LengthsOf(sequence);
  SequenceView rows = lengths;
  rows.kv_len = 0;
  const double row_bytes = ForwardBytes(attention, rows, block_rows);
  const double key_bytes = ForwardBytes(attention, lengths, block_rows) - row_bytes;
  const double element = static_cast<double>(SizeOf(attention.dtype));
  const double cached = static_cast<double>(SizeOf(params.cache_dtype));
  const double appended = 2.0 * static_cast<double>(sequence.append_len) * attention.kv_heads * attention.head_dim;
  return row_bytes + key_bytes * (cached / element) + appended * (element + cached);
}

}  // namespace tessera
