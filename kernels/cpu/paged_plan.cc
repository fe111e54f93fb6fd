#include "kernels/cpu/paged_plan.h"

#include <algorithm>

#include "kernels/cpu/forward_plan.h"
#include "kernels/cpu/split_partial.h"
#include "kernels/cpu/tile_shape.h"
#include "kernels/traffic_model.h"

namespace tessera {
namespace {

// Work beside the products, in rows' worth of them: reading and widening K and V.
constexpr double kReadingRows = 4;

}  // namespace

PagedPlan::PagedPlan(const PagedParams& params, absl::Span<const PagedSequence> sequences) {
  const AttentionParams& attention = params.attention;
  const int64_t group = attention.q_heads / attention.kv_heads;
  std::vector<SequenceView> lengths;
  for (const PagedSequence& sequence : sequences) lengths.push_back(LengthsOf(sequence));
  const ForwardPlan blocks(attention, lengths);
  stats_ = blocks.stats();
  stats_.hbm_bytes = 0;
  for (const PagedSequence& sequence : sequences) {
    stats_.hbm_bytes += PagedBytes(params, sequence, BlockRows(attention.head_dim));
  }

  for (int64_t i = 0; i < blocks.size(); ++i) {
    const auto [index, block] = blocks[i];
    const PagedSequence& sequence = sequences[index];
    if (sequence.q_len * group <= kMaxSplitRows) continue;
    const MaskGeometry mask(attention.mask, sequence.q_len, sequence.kv_len);
    const int64_t last = (block.first_row + block.rows - 1) / group;
    const KeyRange keys = mask.VisibleToAny(block.first_row / group, last);
    const double cost = (static_cast<double>(block.rows) + kReadingRows) * static_cast<double>(keys.size() + 1);
    items_.push_back({.cost = cost, .sequence = index, .block = block, .split = {0, sequence.kv_len}});
  }
  for (size_t i = 0; i < sequences.size(); ++i) {
    const int64_t rows = sequences[i].q_len * group;
    if (rows > 0 && rows <= kMaxSplitRows) AddSplits(params, static_cast<int64_t>(i), sequences[i]);
  }
  std::stable_sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) { return a.cost > b.cost; });
}

void PagedPlan::AddSplits(const PagedParams& params, int64_t index, const PagedSequence& sequence) {
  const AttentionParams& attention = params.attention;
  const int64_t rows = sequence.q_len * (attention.q_heads / attention.kv_heads);
  const MaskGeometry mask(attention.mask, sequence.q_len, sequence.kv_len);
  const KeyRange seen = mask.VisibleToAny(0, sequence.q_len - 1);
  const int64_t keys = SplitKeys(sequence.kv_len, attention.kv_heads);
  // Splits that no row sees anything of are left out: they would add nothing.
  const int64_t first = seen.empty() ? 0 : seen.begin / keys;
  const int64_t splits = seen.empty() ? 0 : (seen.end - 1) / keys - first + 1;
  const int64_t floats = SplitPartial::Floats(rows, attention.head_dim);
  for (int64_t kv_head = 0; kv_head < attention.kv_heads; ++kv_head) {
    heads_.push_back({index, kv_head, rows, splits, partial_floats_});
    for (int64_t i = first; i < first + splits; ++i) {
      const KeyRange split{i * keys, std::min((i + 1) * keys, sequence.kv_len)};
      const double cost = (static_cast<double>(rows) + kReadingRows) * static_cast<double>(split.size());
      items_.push_back({cost, index, {kv_head, 0, rows}, split, partial_floats_});
      partial_floats_ += floats;
    }
  }
}

}  // namespace tessera
