// The attention contract every backend implements.
//
// Tensors are packed [tokens, heads, head_dim]; a batch is a list of sequences, each with pointers, lengths and strides
// of its own, so ragged batches need no packing and no padding.
//
//   o[i, h] = sum_j softmax_j(s[i, j]) v[j, g(h)],   s[i, j] = cap(scale * dot(q[i, h], k[j, g(h)])) + mask(i, j)
//   cap(x) = softcap > 0 ? softcap * tanh(x / softcap) : x,   g(h) = h / (q_heads / kv_heads)
//
// A row that sees no key gives o = 0 and LSE = -inf. LSE is the natural logarithm of sum_j exp(s[i, j]). NaN or
// infinity in one row reaches only the rows that see it. Results are bitwise the same on every call, whoever shares the
// batch.
#ifndef TESSERA_KERNELS_ATTENTION_H_
#define TESSERA_KERNELS_ATTENTION_H_

#include <cstdint>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tessera {

enum class DType : uint8_t { kFloat32, kFloat16, kBFloat16 };

// Bytes of one element.
constexpr int64_t SizeOf(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }

// "float32", "float16", "bfloat16".
absl::string_view Name(DType dtype);

inline constexpr int kMinHeadDim = 8;
inline constexpr int kMaxHeadDim = 256;
inline constexpr int kHeadDimStep = 8;

// Which keys a row sees. Row i of q_len rows over kv_len keys stands at position p = i + kv_len - q_len (bottom-right
// alignment) and sees keys p - left <= j <= p + right; kUnbounded lifts a side.
struct Mask {
  static constexpr int64_t kUnbounded = -1;

  int64_t left = kUnbounded;
  int64_t right = kUnbounded;

  static constexpr Mask Full() { return {}; }
  static constexpr Mask Causal() { return {kUnbounded, 0}; }
  static constexpr Mask Window(int64_t left, int64_t right) { return {left, right}; }

  friend constexpr bool operator==(const Mask&, const Mask&) = default;
};

// What all sequences of one batch have in common.
struct AttentionParams {
  DType dtype = DType::kFloat32;
  int32_t q_heads = 1;
  int32_t kv_heads = 1;   // q_heads is a multiple of it
  int32_t head_dim = 64;  // kMinHeadDim to kMaxHeadDim in steps of kHeadDimStep
  float scale = 1.0f;
  Mask mask = Mask::Full();
  float softcap = 0.0f;  // 0 is off

  friend bool operator==(const AttentionParams&, const AttentionParams&) = default;
};

// Distance between neighbouring tokens and heads, in elements. The elements of a head are contiguous.
struct Strides {
  int64_t token = 0;
  int64_t head = 0;

  // Of a packed [tokens, heads, width] tensor.
  static constexpr Strides Packed(int64_t heads, int64_t width) { return {heads * width, width}; }
};

// One sequence of a batch: where its tensors lie. Elements are params.dtype; LSE is float32. Pointers of zero-length
// tensors may be null. Inputs must not overlap outputs.
struct SequenceView {
  int64_t q_len = 0;
  int64_t kv_len = 0;
  const void* q = nullptr;  // [q_len, q_heads, head_dim]
  const void* k = nullptr;  // [kv_len, kv_heads, head_dim]
  const void* v = nullptr;  // [kv_len, kv_heads, head_dim]
  void* o = nullptr;        // [q_len, q_heads, head_dim]
  float* lse = nullptr;     // [q_len, q_heads], or null where it is not wanted
  Strides q_strides = {};
  Strides k_strides = {};
  Strides v_strides = {};
  Strides o_strides = {};
  Strides lse_strides = {};
};

// What a call did, summed over sequences and heads.
struct ForwardStats {
  int64_t tiles_computed = 0;
  int64_t tiles_skipped = 0;  // wholly masked, never computed
  double flops = 0;           // useful: 4 * head_dim for each visible (row, key) pair and query head
  double hbm_bytes = 0;       // the traffic model's estimate for the tiled kernel

  ForwardStats& operator+=(const ForwardStats& other);
};

// A device's queue of work: a cudaStream_t on a GPU, null on the CPU.
using StreamHandle = void*;

// One implementation on one device. Thread-safe: concurrent calls are allowed.
class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;

  // Kernel family, from a closed set: "cpu", "standard", "reference", "sm90a", "sm80".
  virtual absl::string_view name() const = 0;

  // Computes every sequence. On a GPU the work is enqueued on `stream` and pointers are device pointers; on the CPU the
  // results are there on return. `stats`, if not null, is overwritten.
  // INVALID_ARGUMENT where ValidateParams or ValidateSequence refuses, with nothing written;
  // RESOURCE_EXHAUSTED where scratch memory cannot be had; INTERNAL for a device's error.
  virtual absl::Status Forward(const AttentionParams& params, absl::Span<const SequenceView> sequences,
                               StreamHandle stream, ForwardStats* stats) = 0;

  // Forward on the host, with an end before its time: once `stop` is requested, the call returns within milliseconds,
  // with CANCELLED; outputs and `stats` then mean nothing. A request that comes too late, or to a backend that does not
  // look, changes nothing: a call that returns OK is complete.
  virtual absl::Status ForwardUntilStopped(const AttentionParams& params, absl::Span<const SequenceView> sequences,
                                           const std::stop_token& /*stop*/, ForwardStats* stats) {
    return Forward(params, sequences, /*stream=*/nullptr, stats);
  }
};

// INVALID_ARGUMENT naming the field and the limit, for head counts, head_dim, scale, softcap and mask.
absl::Status ValidateParams(const AttentionParams& params);

// INVALID_ARGUMENT for negative lengths, null pointers of non-empty tensors, and strides under the packed minimum.
absl::Status ValidateSequence(const AttentionParams& params, const SequenceView& sequence);

// Both of the above for a whole batch; a sequence's error names its index.
absl::Status ValidateBatch(const AttentionParams& params, absl::Span<const SequenceView> sequences);

}  // namespace tessera

#endif  // TESSERA_KERNELS_ATTENTION_H_
