#include "kernels/cuda/forward_plan.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/key_range.h"
#include "kernels/cuda/page_box.h"
#include "kernels/traffic_model.h"

namespace tessera::cuda {
namespace {

// K and V of the heads worked on at one time should stay in the L2 cache. Half of an H200's 60 MB: data that every
// multiprocessor reads occupies both of its partitions.
constexpr int64_t kL2Budget = int64_t{24} << 20;

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int16_t Log2(int64_t power) { return static_cast<int16_t>(std::countr_zero(static_cast<uint64_t>(power))); }

TensorStrides Convert(const Strides& strides) { return {strides.token, strides.head}; }

int RowUnit(int tile_rows) { return std::min(tile_rows, kRowUnit); }

int TokensPerTile(int tile_rows, int group) { return RowUnit(tile_rows) / group * (tile_rows / RowUnit(tile_rows)); }

SequenceShape ShapeOf(const AttentionParams& params, const SequenceView& sequence, int tile_rows) {
  const int group = StackedHeads(params, sequence.q_len, tile_rows);
  SequenceShape shape = {};
  shape.q_len = static_cast<int32_t>(sequence.q_len);
  shape.kv_len = static_cast<int32_t>(sequence.kv_len);
  shape.group = group;
  shape.tokens_per_unit = RowUnit(tile_rows) / group;
  shape.tokens_per_tile = TokensPerTile(tile_rows, group);
  shape.kv_ratio = params.q_heads / params.kv_heads / group;
  shape.o = sequence.o;
  shape.lse = sequence.lse;
  shape.o_strides = Convert(sequence.o_strides);
  shape.lse_strides = Convert(sequence.lse_strides);
  return shape;
}

absl::Status EncodeContiguous(const AttentionParams& params, const SequenceView& sequence,
                              const ForwardKernelEntry& kernel, const TensorMapEncoder& encoder, SequenceEntry& entry) {
  absl::Status status = encoder.EncodeKeys(params, sequence.k, sequence.k_strides, sequence.kv_len, kernel.tile_keys,
                                           kernel.head_dim, &entry.k_map);
  status.Update(encoder.EncodeKeys(params, sequence.v, sequence.v_strides, sequence.kv_len, kernel.tile_keys,
                                   kernel.head_dim, &entry.v_map));
  return status;
}

// The kernel reads one block that it masks whole; a query row stands in for the keys that there are not.
absl::Status EncodeNoKeys(const AttentionParams& params, const SequenceView& sequence, const ForwardKernelEntry& kernel,
                          const TensorMapEncoder& encoder, SequenceEntry& entry) {
  AttentionParams one_head = params;
  one_head.kv_heads = 1;
  const absl::Status status = encoder.EncodeKeys(one_head, sequence.q, Strides::Packed(1, params.head_dim), 1,
                                                 kernel.tile_keys, kernel.head_dim, &entry.k_map);
  entry.v_map = entry.k_map;
  return status;
}

KeyPages Describe(const SequenceView& sequence, const PagesView& view, const ForwardKernelEntry& kernel) {
  return {.numbers = view.pages,
          .maps = nullptr,
          .stride = view.page_stride,
          .last = static_cast<int32_t>((sequence.kv_len - 1) / view.page_tokens),
          .page_shift = Log2(view.page_tokens),
          .box_shift = Log2(BoxKeys(view.page_tokens, kernel.tile_keys))};
}

absl::Status EncodePages(const AttentionParams& params, const SequenceView& sequence, const PagesView& view,
                         const ForwardKernelEntry& kernel, const TensorMapEncoder& encoder, PageMaps& maps) {
  const int box_keys = static_cast<int>(BoxKeys(view.page_tokens, kernel.tile_keys));
  const int64_t tail = (sequence.kv_len - 1) % view.page_tokens + 1;
  absl::Status status;
  const auto encode = [&](const void* data, const Strides& strides, int64_t tokens, TensorMap* map) {
    status.Update(encoder.EncodePages(params, data, strides, view.page_stride, tokens, box_keys, kernel.head_dim, map));
  };
  encode(sequence.k, sequence.k_strides, view.page_tokens, &maps.k_map);
  encode(sequence.v, sequence.v_strides, view.page_tokens, &maps.v_map);
  encode(sequence.k, sequence.k_strides, tail, &maps.k_tail_map);
  encode(sequence.v, sequence.v_strides, tail, &maps.v_tail_map);
  return status;
}

// But for K's and V's maps.
absl::Status FillEntry(const AttentionParams& params, const SequenceView& sequence, const ForwardKernelEntry& kernel,
                       const TensorMapEncoder* encoder, SequenceEntry& entry) {
  entry.shape = ShapeOf(params, sequence, kernel.tile_rows);
  entry.q = sequence.q;
  entry.k = sequence.k;
  entry.v = sequence.v;
  entry.q_strides = Convert(sequence.q_strides);
  entry.k_strides = Convert(sequence.k_strides);
  entry.v_strides = Convert(sequence.v_strides);
  if (encoder == nullptr) return absl::OkStatus();
  absl::Status status =
      encoder->EncodeQueries(params, sequence.q, sequence.q_strides, sequence.q_len, entry.shape.group,
                             entry.shape.tokens_per_unit, kernel.head_dim, &entry.q_map);
  status.Update(encoder->EncodeQueries(params, sequence.o, sequence.o_strides, sequence.q_len, entry.shape.group,
                                       entry.shape.tokens_per_unit, kernel.head_dim, &entry.o_map));
  return status;
}

// Appends the sequence's tiles to the last section where it has the same shape and room, else as new ones.
void AppendSections(const AttentionParams& params, const SequenceShape& shape, uint32_t index, ForwardPlan& plan) {
  const uint32_t heads = static_cast<uint32_t>(params.q_heads / shape.group);
  const uint32_t row_blocks = static_cast<uint32_t>(CeilDiv(shape.q_len, shape.tokens_per_tile));
  const int64_t bytes_per_kv_head = int64_t{2} * shape.kv_len * params.head_dim * SizeOf(params.dtype);
  const int64_t kv_heads_at_once = std::max<int64_t>(1, kL2Budget / std::max<int64_t>(1, bytes_per_kv_head));
  const int64_t room = std::min<int64_t>(kv_heads_at_once * shape.kv_ratio, std::numeric_limits<int32_t>::max());
  if (!plan.sections.empty()) {
    TileSection& last = plan.sections.back();
    const bool whole = last.first_head == 0 && last.lanes % last.heads == 0;
    if (whole && last.row_blocks == row_blocks && last.heads == heads && int64_t{last.lanes} + heads <= room) {
      last.lanes += heads;
      plan.tile_count += heads * row_blocks;
      return;
    }
  }
  for (uint32_t head = 0; head < heads;) {
    const uint32_t lanes = static_cast<uint32_t>(std::min<int64_t>(room, heads - head));
    plan.sections.push_back({plan.tile_count, lanes, row_blocks, index, head, heads, {0, 0}});
    plan.tile_count += lanes * row_blocks;
    head += lanes;
  }
}

}  // namespace

int32_t ClampSide(int64_t side) {
  return side == Mask::kUnbounded || side >= kUnboundedSide ? kUnboundedSide : static_cast<int32_t>(side);
}

int StackedHeads(const AttentionParams& params, int64_t q_len, int tile_rows) {
  const int group = params.q_heads / params.kv_heads;
  if (group == 1 || group > RowUnit(tile_rows)) return 1;
  const int64_t stacked = CeilDiv(q_len, TokensPerTile(tile_rows, group));
  return stacked < group * CeilDiv(q_len, tile_rows) ? group : 1;
}

absl::StatusOr<ForwardPlan> PlanForward(const AttentionParams& params, absl::Span<const SequenceView> sequences,
                                        absl::Span<const PagesView> pages, const ForwardKernelEntry& kernel,
                                        const TensorMapEncoder* encoder) {
  std::vector<size_t> order;
  order.reserve(sequences.size());
  int64_t tiles = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const SequenceView& sequence = sequences[i];
    if (sequence.q_len > kMaxLength || sequence.kv_len > kMaxLength) {
      return absl::InvalidArgumentError(absl::StrCat("q_len and kv_len must be at most ", kMaxLength, ", got ",
                                                     sequence.q_len, ", ", sequence.kv_len));
    }
    if (sequence.q_len == 0) continue;
    const int group = StackedHeads(params, sequence.q_len, kernel.tile_rows);
    tiles += CeilDiv(sequence.q_len, TokensPerTile(kernel.tile_rows, group)) * (params.q_heads / group);
    order.push_back(i);
  }
  if (tiles > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("the batch has ", tiles, " tiles, at most 2^31 - 1 are possible"));
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const SequenceView& x = sequences[a];
    const SequenceView& y = sequences[b];
    return x.kv_len != y.kv_len ? x.kv_len > y.kv_len : x.q_len > y.q_len;
  });

  ForwardPlan plan;
  plan.sequences.resize(order.size());
  if (!pages.empty()) plan.page_maps.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const SequenceView& sequence = sequences[order[i]];
    SequenceEntry& entry = plan.sequences[i];
    absl::Status status = FillEntry(params, sequence, kernel, encoder, entry);
    if (!pages.empty()) {
      const PagesView& view = pages[order[i]];
      entry.shape.pages = Describe(sequence, view, kernel);
      PageMaps& maps = plan.page_maps[i];
      status.Update(EncodePages(params, sequence, view, kernel, *encoder, maps));
      entry.k_map = maps.k_map;  // the kernel looks at all of an entry's maps
      entry.v_map = maps.v_map;
    } else if (encoder != nullptr) {
      status.Update(sequence.kv_len > 0 ? EncodeContiguous(params, sequence, kernel, *encoder, entry)
                                        : EncodeNoKeys(params, sequence, kernel, *encoder, entry));
    }
    if (!status.ok()) return status;
    AppendSections(params, plan.sequences[i].shape, static_cast<uint32_t>(i), plan);
  }
  return plan;
}

ForwardStats ModelForward(const AttentionParams& params, const SequenceView& sequence,
                          const ForwardKernelEntry& kernel) {
  ForwardStats stats;
  if (sequence.q_len == 0) return stats;
  const SequenceShape shape = ShapeOf(params, sequence, kernel.tile_rows);
  const int32_t left = ClampSide(params.mask.left);
  const int32_t right = ClampSide(params.mask.right);
  const int64_t all_blocks = CeilDiv(shape.kv_len, kernel.tile_keys);
  const int64_t heads = params.q_heads / shape.group;
  for (int64_t first = 0; first < shape.q_len; first += shape.tokens_per_tile) {
    const int64_t last = std::min<int64_t>(first + shape.tokens_per_tile, shape.q_len) - 1;
    const KeyBlocks blocks = VisibleBlocks(static_cast<int32_t>(first), static_cast<int32_t>(last), shape.q_len,
                                           shape.kv_len, left, right, kernel.tile_keys);
    const int64_t computed = blocks.empty() ? 0 : blocks.end - blocks.begin;
    stats.tiles_computed += heads * computed;
    stats.tiles_skipped += heads * (all_blocks - computed);
  }
  stats.flops = ForwardFlops(params, sequence);
  stats.hbm_bytes = ForwardBytes(params, sequence, kernel.tile_rows);
  return stats;
}

}  // namespace tessera::cuda
