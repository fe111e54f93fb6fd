#include "kernels/cpu/forward_plan.h"

#include <algorithm>

#include "kernels/cpu/tile_shape.h"
#include "kernels/mask.h"
#include "kernels/traffic_model.h"

namespace tessera {
namespace {

// Work beside the products, in rows' worth of products: packing keys and values costs as much as this many rows do.
constexpr double kPackingRows = 16;

// Tiles of rows first .. first + rows - 1 in which some row sees some key.
int64_t TilesComputed(const MaskGeometry& mask, int64_t group, int64_t first, int64_t rows) {
  int64_t tiles = 0;
  for (int64_t row = first; row < first + rows; row += kTileRows) {
    const int64_t last = std::min(row + kTileRows, first + rows) - 1;
    const KeyRange keys = mask.VisibleToAny(row / group, last / group);
    if (!keys.empty()) tiles += (keys.end - 1) / kTileKeys - keys.begin / kTileKeys + 1;
  }
  return tiles;
}

}  // namespace

ForwardPlan::ForwardPlan(const AttentionParams& params, absl::Span<const SequenceView> sequences)
    : kv_heads_(params.kv_heads) {
  const int64_t group = params.q_heads / params.kv_heads;
  const int64_t block_rows = BlockRows(params.head_dim);
  for (size_t s = 0; s < sequences.size(); ++s) {
    const SequenceView& sequence = sequences[s];
    const MaskGeometry mask(params.mask, sequence.q_len, sequence.kv_len);
    const int64_t key_tiles = (sequence.kv_len + kTileKeys - 1) / kTileKeys;
    const int64_t all_rows = sequence.q_len * group;
    for (int64_t first = 0; first < all_rows; first += block_rows) {
      const int64_t rows = std::min(block_rows, all_rows - first);
      const KeyRange keys = mask.VisibleToAny(first / group, (first + rows - 1) / group);
      const int64_t computed = TilesComputed(mask, group, first, rows);
      const int64_t all = (rows + kTileRows - 1) / kTileRows * key_tiles;
      stats_.tiles_computed += computed * kv_heads_;
      stats_.tiles_skipped += (all - computed) * kv_heads_;
      // The added key stands for packing Q and writing O.
      const double cost = static_cast<double>(keys.size() + 1) * (static_cast<double>(rows) + kPackingRows);
      blocks_.push_back({cost, static_cast<int64_t>(s), first, rows});
    }
    stats_.flops += ForwardFlops(params, sequence);
    stats_.hbm_bytes += ForwardBytes(params, sequence, block_rows);
  }
  std::stable_sort(blocks_.begin(), blocks_.end(), [](const Block& a, const Block& b) { return a.cost > b.cost; });
}

ForwardPlan::Item ForwardPlan::operator[](int64_t index) const {
  const Block& block = blocks_[index / kv_heads_];
  return {block.sequence, {index % kv_heads_, block.first_row, block.rows}};
}

}  // namespace tessera
