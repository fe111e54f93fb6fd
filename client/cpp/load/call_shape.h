// The shape of one Attend call of the load, and what the call costs.
#ifndef TESSERA_CLIENT_CPP_LOAD_CALL_SHAPE_H_
#define TESSERA_CLIENT_CPP_LOAD_CALL_SHAPE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cpp/load/element_format.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::load {

inline constexpr int64_t kUnboundedWindow = -1;

// Every call of one shape has the same bytes; only their values differ.
struct CallShape {
  std::string name;         // for reports
  int64_t q_length = 128;   // query rows of each sequence, in tokens
  int64_t kv_length = 128;  // keys of each sequence, in tokens
  int64_t sequences = 1;    // of q_length and kv_length each
  int64_t q_heads = 16;     // a multiple of kv_heads
  int64_t kv_heads = 16;
  int64_t head_dim = 128;
  v1::DataType dtype = v1::DATA_TYPE_BFLOAT16;
  v1::MaskKind mask = v1::MASK_KIND_FULL;
  int64_t window_left = 0;  // only with MASK_KIND_WINDOW; kUnboundedWindow lifts the side
  int64_t window_right = 0;
  bool return_lse = false;
  double weight = 1;                                 // share of the mix, relative to the other shapes
  v1::Priority priority = v1::PRIORITY_UNSPECIFIED;  // unspecified: the run's
  std::string tenant;                                // empty: one of the run's
  absl::Duration timeout;                            // zero: the run's

  int64_t q_bytes() const { return sequences * q_length * q_heads * head_dim * ElementBytes(dtype); }
  int64_t kv_bytes() const {
    return sequences * kv_length * kv_heads * head_dim * ElementBytes(dtype);
  }  // of k; v alike
  int64_t o_bytes() const { return q_bytes(); }
  int64_t lse_bytes() const { return return_lse ? sequences * q_length * q_heads * 4 : 0; }
  int64_t request_bytes() const { return q_bytes() + 2 * kv_bytes(); }  // tensors only, no framing
  int64_t response_bytes() const { return o_bytes() + lse_bytes(); }

  // 4 * head_dim for each visible (row, key) pair and query head.
  double UsefulFlops() const;
};

// The keys [begin, end) that row `row` sees (bottom-right alignment); empty where begin == end.
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;
};
KeyRange VisibleKeys(const CallShape& shape, int64_t row);

// Parses "s=128,heads=16,d=128,dtype=bf16,mask=causal,weight=3". Keys, all optional: s (query rows, and keys unless kv
// is given), kv, sequences, heads, kv_heads (default: heads), d, dtype (fp32, fp16, bf16), mask (full, causal,
// window:LEFT:RIGHT), lse (0, 1), weight, priority (low, normal, high), tenant, timeout (such as 50ms), name.
// INVALID_ARGUMENT naming the key for anything else.
absl::StatusOr<CallShape> ParseCallShape(absl::string_view text);

// "low", "normal", "high"; INVALID_ARGUMENT for others.
absl::StatusOr<v1::Priority> ParsePriority(absl::string_view text);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_CALL_SHAPE_H_
