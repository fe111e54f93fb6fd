#include "server/request/attend_shape.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

// Sum of min(x, limit) over 0 <= x <= last.
double SumClamped(int64_t last, int64_t limit) {
  if (last < 0) return 0;
  const auto ramp = static_cast<double>(std::min(last, limit));
  const auto flat = static_cast<double>(std::max<int64_t>(last - limit, 0));
  return ramp * (ramp + 1) / 2 + flat * static_cast<double>(limit);
}

// Sum of clamp(first + i, 0, limit) over 0 <= i < count.
double SumClamped(int64_t first, int64_t count, int64_t limit) {
  return SumClamped(first + count - 1, limit) - SumClamped(first - 1, limit);
}

// Pairs (row, key) that the mask lets see each other: each row's visible keys end at clamp(p + right + 1) and begin at
// clamp(p - left), for positions p = kv_len - q_len + i.
double VisiblePairs(const Mask& mask, int64_t q_len, int64_t kv_len) {
  const int64_t first = kv_len - q_len;
  const int64_t reach = q_len + kv_len;  // a window this wide is unbounded
  const double ends = mask.right == Mask::kUnbounded
                          ? static_cast<double>(q_len) * static_cast<double>(kv_len)
                          : SumClamped(first + std::min(mask.right, reach) + 1, q_len, kv_len);
  const double begins =
      mask.left == Mask::kUnbounded ? 0 : SumClamped(first - std::min(mask.left, reach), q_len, kv_len);
  return ends - begins;
}

absl::Status AboveLimit(absl::string_view field, int64_t value, int64_t limit) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, " is more than the server's limit of ", limit));
}

absl::Status ValidateLimits(const AttentionParams& params, const RequestLimits& limits) {
  if (params.q_heads > limits.max_heads) return AboveLimit("q_heads", params.q_heads, limits.max_heads);
  if (params.kv_heads > limits.max_heads) return AboveLimit("kv_heads", params.kv_heads, limits.max_heads);
  return ValidateParams(params);
}

// Copies `lengths` and adds them up. REQUIRES: fewer than 2^31, so that the sum stays below 2^63.
absl::StatusOr<int64_t> TakeLengths(absl::string_view field, absl::Span<const uint32_t> lengths, int64_t limit,
                                    std::vector<int64_t>* taken) {
  taken->reserve(lengths.size());
  int64_t tokens = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int64_t length = lengths[i];
    if (length > limit) return AboveLimit(absl::StrCat(field, "[", i, "]"), length, limit);
    tokens += length;
    taken->push_back(length);
  }
  return tokens;
}

// product = tokens * heads * width; false where that overflows.
bool Multiply(int64_t tokens, int64_t heads, int64_t width, int64_t* product) {
  return !__builtin_mul_overflow(tokens, heads, product) && !__builtin_mul_overflow(*product, width, product);
}

// q + k + v + o + LSE; false where that overflows.
bool TotalBytes(const AttendShape& shape, int64_t* total) {
  *total = shape.lse_bytes;
  for (const int64_t bytes : {shape.q_bytes, shape.q_bytes, shape.kv_bytes, shape.kv_bytes}) {
    if (__builtin_add_overflow(*total, bytes, total)) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<AttendShape> AttendShape::Make(const AttentionParams& params, absl::Span<const uint32_t> q_lengths,
                                              absl::Span<const uint32_t> kv_lengths, bool return_lse,
                                              const RequestLimits& limits) {
  if (absl::Status status = ValidateLimits(params, limits); !status.ok()) return status;
  if (q_lengths.empty()) return absl::InvalidArgumentError("q_lengths: empty, at least 1 sequence is needed");
  const auto sequences = static_cast<int64_t>(q_lengths.size());
  const int64_t max_sequences = std::min<int64_t>(limits.max_sequences, std::numeric_limits<int32_t>::max());
  if (sequences > max_sequences) return AboveLimit("q_lengths", sequences, max_sequences);
  if (!kv_lengths.empty() && kv_lengths.size() != q_lengths.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("kv_lengths: ", kv_lengths.size(), " lengths, but q_lengths has ", q_lengths.size()));
  }

  AttendShape shape;
  shape.params = params;
  shape.return_lse = return_lse;
  absl::StatusOr<int64_t> q_tokens = TakeLengths("q_lengths", q_lengths, limits.max_sequence_tokens, &shape.q_lengths);
  if (!q_tokens.ok()) return q_tokens.status();
  absl::StatusOr<int64_t> kv_tokens = TakeLengths("kv_lengths", kv_lengths.empty() ? q_lengths : kv_lengths,
                                                  limits.max_sequence_tokens, &shape.kv_lengths);
  if (!kv_tokens.ok()) return kv_tokens.status();
  shape.q_tokens = *q_tokens;
  shape.kv_tokens = *kv_tokens;

  const int64_t head_bytes = params.head_dim * SizeOf(params.dtype);
  int64_t total = 0;
  const bool countable = Multiply(shape.q_tokens, params.q_heads, head_bytes, &shape.q_bytes) &&
                         Multiply(shape.kv_tokens, params.kv_heads, head_bytes, &shape.kv_bytes) &&
                         (!return_lse || Multiply(shape.q_tokens, params.q_heads, sizeof(float), &shape.lse_bytes)) &&
                         TotalBytes(shape, &total);
  if (!countable || total > limits.max_request_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("q_lengths, kv_lengths: q, k, v, o and LSE of ", shape.q_tokens, " query and ", shape.kv_tokens,
                     " key tokens take ", countable ? absl::StrCat(total, " bytes, more") : "more bytes",
                     " than the server's limit max_request_bytes = ", limits.max_request_bytes));
  }
  if (const int64_t cost = shape.Cost(); cost > limits.max_request_cost) {
    return absl::InvalidArgumentError(
        absl::StrCat("q_lengths, kv_lengths: the estimated cost is ", cost == kMostCost ? "at least " : "", cost,
                     ", more than the server's limit max_request_cost = ", limits.max_request_cost));
  }
  return shape;
}

int64_t AttendShape::Cost() const {
  double pairs = 0;
  for (size_t i = 0; i < q_lengths.size(); ++i) pairs += VisiblePairs(params.mask, q_lengths[i], kv_lengths[i]);
  const double flops = 4.0 * params.head_dim * params.q_heads * pairs;
  const auto bytes = static_cast<double>(held_bytes());
  return static_cast<int64_t>(std::clamp(flops + kFlopsPerByte * bytes, 1.0, static_cast<double>(kMostCost)));
}

}  // namespace tessera
