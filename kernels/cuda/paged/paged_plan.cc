#include "kernels/cuda/paged/paged_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/mask.h"
#include "kernels/traffic_model.h"

namespace tessera::cuda::paged {
namespace {

static_assert(kMaxSplits <= kMostSplits, "the combining block has room for the sums of all splits");

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

TensorStrides Convert(const Strides& strides) { return {strides.token, strides.head}; }

int64_t StackedRows(const AttentionParams& params, const PagedSequence& sequence) {
  return sequence.q_len * (params.q_heads / params.kv_heads);
}

// Splits of few rows; one of all keys for many, and where no row sees a key. Splits that no row sees anything of are
// left out: they would add nothing.
void Split(const AttentionParams& params, const PagedSequence& sequence, PagedEntry& entry) {
  const KeyRange seen = MaskGeometry(params.mask, sequence.q_len, sequence.kv_len).VisibleToAny(0, sequence.q_len - 1);
  entry.first_key = 0;
  entry.split_keys = std::max(entry.kv_len, 1);
  entry.splits = 1;
  if (seen.empty() || StackedRows(params, sequence) > kMaxSplitRows) return;
  const int64_t keys = SplitKeys(sequence.kv_len, params.kv_heads);
  entry.first_key = static_cast<int32_t>(seen.begin / keys * keys);
  entry.split_keys = static_cast<int32_t>(keys);
  entry.splits = static_cast<int32_t>((seen.end - 1) / keys - seen.begin / keys + 1);
}

// Whether each new row is in the split of just one block of its head.
bool BlocksCanAppend(const PagedEntry& entry) {
  const int64_t end = entry.first_key + int64_t{entry.splits} * entry.split_keys;
  return entry.row_blocks == 1 && entry.kv_len - entry.append_len >= entry.first_key && end >= entry.kv_len;
}

}  // namespace

PagedEntry Describe(const PagedParams& params, const PagedSequence& sequence) {
  PagedEntry entry = {};
  entry.pages = sequence.pages.data();
  entry.k_pages = sequence.layer.k_pages;
  entry.v_pages = sequence.layer.v_pages;
  if (params.cache_dtype == CacheDType::kFloat8) {
    entry.k_scales = sequence.layer.k_scales;
    entry.v_scales = sequence.layer.v_scales;
  }
  entry.q = sequence.q;
  entry.o = sequence.o;
  entry.lse = sequence.lse;
  entry.k = sequence.k;
  entry.v = sequence.v;
  entry.q_strides = Convert(sequence.q_strides);
  entry.o_strides = Convert(sequence.o_strides);
  entry.lse_strides = Convert(sequence.lse_strides);
  entry.k_strides = Convert(sequence.k_strides);
  entry.v_strides = Convert(sequence.v_strides);
  entry.q_len = static_cast<int32_t>(sequence.q_len);
  entry.kv_len = static_cast<int32_t>(sequence.kv_len);
  entry.append_len = static_cast<int32_t>(sequence.append_len);
  return entry;
}

absl::StatusOr<PagedPlan> PlanPaged(const PagedParams& params, absl::Span<const PagedSequence> sequences,
                                    const PagedKernelEntry& kernel, bool appends_itself) {
  const AttentionParams& attention = params.attention;
  PagedPlan plan;
  std::vector<PagedEntry> entries;
  for (const PagedSequence& sequence : sequences) {
    if (StackedRows(attention, sequence) > kMaxLength || sequence.kv_len > kMaxLength) {
      return absl::InvalidArgumentError(
          absl::StrCat("kv_len, and q_len times the query heads of a key head, must be at most ", kMaxLength, ", got ",
                       sequence.kv_len, ", ", sequence.q_len));
    }
    PagedEntry entry = Describe(params, sequence);
    if (sequence.q_len > 0) {
      entry.row_blocks = static_cast<int32_t>(CeilDiv(StackedRows(attention, sequence), kernel.tile_rows));
      Split(attention, sequence, entry);
      entry.appends = appends_itself && entry.append_len > 0 && BlocksCanAppend(entry) ? 1 : 0;
      entries.push_back(entry);
    }
    if (entry.append_len > 0 && entry.appends == 0) plan.appends.push_back(entry);
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const PagedEntry& a, const PagedEntry& b) { return a.split_keys > b.split_keys; });

  int64_t items = 0, counters = 0;
  for (PagedEntry& entry : entries) {
    plan.first_items.push_back(static_cast<uint32_t>(items));
    const int64_t lanes = int64_t{entry.row_blocks} * attention.kv_heads;
    items += lanes * entry.splits;
    if (items > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError("the batch is too large: more than 2^31 - 1 blocks of work");
    }
    if (entry.splits == 1) continue;
    const int64_t rows =
        std::min<int64_t>(kernel.tile_rows, int64_t{entry.q_len} * (attention.q_heads / attention.kv_heads));
    entry.first_partial = plan.partial_floats;
    entry.partial_floats = static_cast<int32_t>(PartialFloats(rows, attention.head_dim));
    entry.first_counter = static_cast<int32_t>(counters);
    plan.partial_floats += lanes * entry.splits * entry.partial_floats;
    counters += lanes;
  }
  plan.entries = std::move(entries);
  plan.item_count = static_cast<uint32_t>(items);
  plan.counter_count = static_cast<int32_t>(counters);
  return plan;
}

ForwardStats ModelPaged(const PagedParams& params, const PagedSequence& sequence, const PagedKernelEntry& kernel) {
  const AttentionParams& attention = params.attention;
  const int64_t group = attention.q_heads / attention.kv_heads;
  const int64_t rows = StackedRows(attention, sequence);
  const MaskGeometry mask(attention.mask, sequence.q_len, sequence.kv_len);
  const int64_t all = CeilDiv(sequence.kv_len, kSplitStep);
  ForwardStats stats;
  for (int64_t first = 0; first < rows; first += kernel.tile_rows) {
    const int64_t last = std::min<int64_t>(first + kernel.tile_rows, rows) - 1;
    const KeyRange seen = mask.VisibleToAny(first / group, last / group);
    const int64_t computed = seen.empty() ? 0 : (seen.end - 1) / kSplitStep - seen.begin / kSplitStep + 1;
    stats.tiles_computed += attention.kv_heads * computed;
    stats.tiles_skipped += attention.kv_heads * (all - computed);
  }
  stats.flops = ForwardFlops(attention, LengthsOf(sequence));
  stats.hbm_bytes = PagedBytes(params, sequence, kernel.tile_rows);
  return stats;
}

}  // namespace tessera::cuda::paged
