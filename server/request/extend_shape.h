// The shape of one Extend call: entries, sizes and offsets, checked against overflow and the server's limits.
#ifndef TESSERA_SERVER_REQUEST_EXTEND_SHAPE_H_
#define TESSERA_SERVER_REQUEST_EXTEND_SHAPE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/attention.h"
#include "kernels/paged_attention.h"
#include "server/cache/sequence_handle.h"
#include "server/request/attend_shape.h"
#include "server/request/cache_profile.h"

namespace tessera {

// One layer of one sequence.
struct ExtendEntry {
  SequenceHandle sequence;
  int32_t layer = 0;
  int64_t q_tokens = 0;
  int64_t append_tokens = 0;
};

// Immutable once made. All sizes in bytes; no sum or product in it can overflow.
struct ExtendShape {
  // What the server keeps of each entry besides its tensors: a view, a table of typical length, and the step's own.
  static constexpr int64_t kEntryBytes = sizeof(PagedSequence) + sizeof(ExtendEntry) + 512;

  AttentionParams params;
  std::vector<ExtendEntry> entries;
  bool return_lse = false;
  int64_t q_tokens = 0;
  int64_t append_tokens = 0;
  int64_t q_bytes = 0;
  int64_t kv_bytes = 0;   // of k; v is the same
  int64_t lse_bytes = 0;  // 0 unless return_lse

  int64_t input_bytes() const { return q_bytes + 2 * kv_bytes; }
  int64_t output_bytes() const { return q_bytes + lse_bytes; }
  int64_t held_bytes() const {
    return input_bytes() + output_bytes() + static_cast<int64_t>(entries.size()) * kEntryBytes;
  }

  // Estimated work on AttendShape's scale, each layer having `lengths` tokens [entries] before the step.
  int64_t Cost(absl::Span<const int64_t> lengths) const;

  // The same, or INVALID_ARGUMENT where it is more than limits.max_request_cost.
  absl::StatusOr<int64_t> CostWithin(const RequestLimits& limits, absl::Span<const int64_t> lengths) const;

  // INVALID_ARGUMENT naming the field and the limit: no entries or too many, a layer that the profile has not, a
  // sequence and layer named twice, tokens beyond a sequence's most, more bytes than a call may have.
  static absl::StatusOr<ExtendShape> Make(const AttentionParams& params, std::vector<ExtendEntry> entries,
                                          bool return_lse, const CacheProfile& profile, const RequestLimits& limits);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_REQUEST_EXTEND_SHAPE_H_
