#include "server/request/extend_shape.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

bool NamesTwice(const std::vector<ExtendEntry>& entries) {
  const auto key = [](const ExtendEntry& entry) {
    const SequenceHandle& handle = entry.sequence;
    return std::make_tuple(handle.epoch, handle.slot, handle.generation, handle.secret, entry.layer);
  };
  std::vector<std::tuple<uint64_t, uint32_t, uint32_t, uint64_t, int32_t>> keys;
  keys.reserve(entries.size());
  for (const ExtendEntry& entry : entries) keys.push_back(key(entry));
  std::sort(keys.begin(), keys.end());
  return std::adjacent_find(keys.begin(), keys.end()) != keys.end();
}

}  // namespace

absl::StatusOr<ExtendShape> ExtendShape::Make(const AttentionParams& params, std::vector<ExtendEntry> entries,
                                              bool return_lse, const CacheProfile& profile,
                                              const RequestLimits& limits) {
  if (params.q_heads > limits.max_heads) {
    return absl::InvalidArgumentError(
        absl::StrCat("q_heads: ", params.q_heads, " is more than the server's limit of ", limits.max_heads));
  }
  if (absl::Status status = ValidateParams(params); !status.ok()) return status;
  if (entries.empty()) return absl::InvalidArgumentError("entries: empty, at least 1 is needed");
  const int64_t max_entries = std::min<int64_t>(limits.max_sequences, std::numeric_limits<int32_t>::max());
  if (static_cast<int64_t>(entries.size()) > max_entries) {
    return absl::InvalidArgumentError(
        absl::StrCat("entries: ", entries.size(), " are more than the server's limit of ", max_entries));
  }
  ExtendShape shape;
  for (size_t i = 0; i < entries.size(); ++i) {
    const ExtendEntry& entry = entries[i];
    const auto refuse = [i](const auto&... why) {
      return absl::InvalidArgumentError(absl::StrCat("entries[", i, "].", why...));
    };
    if (entry.layer < 0 || entry.layer >= profile.layers) {
      return refuse("layer: ", entry.layer, " is not one of the profile's ", profile.layers);
    }
    if (entry.q_tokens > profile.max_tokens) {
      return refuse("q_tokens: ", entry.q_tokens, " are more than the profile's max_tokens = ", profile.max_tokens);
    }
    if (entry.append_tokens > profile.max_tokens) {
      return refuse("append_tokens: ", entry.append_tokens,
                    " are more than the profile's max_tokens = ", profile.max_tokens);
    }
    shape.q_tokens += entry.q_tokens;
    shape.append_tokens += entry.append_tokens;
  }
  if (NamesTwice(entries)) return absl::InvalidArgumentError("entries: a sequence and layer is named twice");

  // At most 2^31 entries of 2^32 tokens each, of rows below 2^21 bytes: counted in doubles first, which cannot
  // overflow.
  const int64_t head_bytes = params.head_dim * SizeOf(params.dtype);
  const double total =
      static_cast<double>(shape.q_tokens) *
          (2.0 * params.q_heads * static_cast<double>(head_bytes) + (return_lse ? 4.0 * params.q_heads : 0.0)) +
      2.0 * static_cast<double>(shape.append_tokens) * params.kv_heads * static_cast<double>(head_bytes);
  if (total > static_cast<double>(limits.max_request_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("entries: q, k, v, o and LSE of ", shape.q_tokens, " query and ",
                                                   shape.append_tokens,
                                                   " new tokens take more bytes than the server's limit "
                                                   "max_request_bytes = ",
                                                   limits.max_request_bytes));
  }
  shape.params = params;
  shape.entries = std::move(entries);
  shape.return_lse = return_lse;
  shape.q_bytes = shape.q_tokens * params.q_heads * head_bytes;
  shape.kv_bytes = shape.append_tokens * params.kv_heads * head_bytes;
  if (return_lse) shape.lse_bytes = shape.q_tokens * params.q_heads * static_cast<int64_t>(sizeof(float));
  return shape;
}

int64_t ExtendShape::Cost(absl::Span<const int64_t> lengths) const {
  double pairs = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    pairs += static_cast<double>(entries[i].q_tokens) * static_cast<double>(lengths[i] + entries[i].append_tokens);
  }
  const double flops = 4.0 * params.head_dim * params.q_heads * pairs;
  const double bytes = static_cast<double>(held_bytes());
  return static_cast<int64_t>(
      std::clamp(flops + AttendShape::kFlopsPerByte * bytes, 1.0, static_cast<double>(AttendShape::kMostCost)));
}

absl::StatusOr<int64_t> ExtendShape::CostWithin(const RequestLimits& limits, absl::Span<const int64_t> lengths) const {
  const int64_t cost = Cost(lengths);
  if (cost <= limits.max_request_cost) return cost;
  return absl::InvalidArgumentError(
      absl::StrCat("entries: the estimated cost is ", cost,
                   ", more than the server's limit max_request_cost = ", limits.max_request_cost));
}

}  // namespace tessera
