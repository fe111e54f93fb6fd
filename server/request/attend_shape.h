// The shape of one Attend call: lengths, sizes and offsets, checked against overflow and the server's limits.
#ifndef TESSERA_SERVER_REQUEST_ATTEND_SHAPE_H_
#define TESSERA_SERVER_REQUEST_ATTEND_SHAPE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/attention.h"

namespace tessera {

struct RequestLimits;

// Immutable once made. All sizes in bytes; no sum or product in it can overflow.
struct AttendShape {
  // What the server keeps of each sequence, however short, besides its tensors: a view and two lengths.
  static constexpr int64_t kSequenceBytes = sizeof(SequenceView) + 2 * sizeof(int64_t);

  AttentionParams params;
  std::vector<int64_t> q_lengths;
  std::vector<int64_t> kv_lengths;  // one for each of q_lengths
  bool return_lse = false;
  int64_t q_tokens = 0;
  int64_t kv_tokens = 0;
  int64_t q_bytes = 0;
  int64_t kv_bytes = 0;   // of k; v is the same
  int64_t lse_bytes = 0;  // 0 unless return_lse

  int64_t input_bytes() const { return q_bytes + 2 * kv_bytes; }
  int64_t output_bytes() const { return q_bytes + lse_bytes; }
  int64_t sequences() const { return static_cast<int64_t>(q_lengths.size()); }
  int64_t metadata_bytes() const { return sequences() * kSequenceBytes; }
  // Everything that the call holds while it lives in the server.
  int64_t held_bytes() const { return input_bytes() + output_bytes() + metadata_bytes(); }

  // Floating-point operations that a device does in the time in which it moves one byte of the call in or out: between
  // a CPU's 10 and a GPU's 200.
  static constexpr double kFlopsPerByte = 64;
  static constexpr int64_t kMostCost = int64_t{1} << 60;

  // Estimated work: floating-point operations over visible pairs, plus kFlopsPerByte for each byte held, so that many
  // tiny calls, one huge one, and one of many empty sequences are weighed on one scale. 1 to kMostCost.
  int64_t Cost() const;

  // Empty `kv_lengths` mean the same as `q_lengths`.
  static absl::StatusOr<AttendShape> Make(const AttentionParams& params, absl::Span<const uint32_t> q_lengths,
                                          absl::Span<const uint32_t> kv_lengths, bool return_lse,
                                          const RequestLimits& limits);
};

// What a server refuses beyond. Every refusal is INVALID_ARGUMENT and names the field and the limit.
struct RequestLimits {
  int64_t max_request_bytes = int64_t{1} << 30;  // q + k + v + o + LSE
  int64_t max_sequences = 8192;
  int64_t max_sequence_tokens = int64_t{1} << 20;
  int32_t max_heads = 256;
  int64_t max_request_cost = AttendShape::kMostCost;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_REQUEST_ATTEND_SHAPE_H_
