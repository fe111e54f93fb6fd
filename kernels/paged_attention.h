// The paged contract: attention of new rows over K and V that stay in pages, and appending to those.
//
// A page holds `page_tokens` neighbouring tokens of one sequence; a sequence's table lists its pages in order, so that
// token t lies in page pages[t / page_tokens] as row t % page_tokens. One call does one step of many sequences: it
// first appends the new k and v rows of each, then computes
//
//   o[i, h] = sum_j softmax_j(s[i, j]) v[j, g(h)],   j < kv_len
//
// by the definitions of kernels/attention.h, over all kv_len rows that are in the pages then. One row is decoding,
// several are a chunk of a prefill; with Mask::Causal() the last row sees every key and each row before it one fewer.
// The query heads of a key head are computed together.
//
// Rows of pages beyond kv_len are not read, whatever they hold, nor are pages that no table names.
//
// Bitwise repeatable and batch-invariant: a long row's keys are cut into splits of SplitKeys(kv_len, kv_heads), a
// function of the sequence's own length and its profile's heads, whose partial results are combined in order. Who
// shares the batch, how many threads or processors there are, and where the pages lie, changes nothing. A profile that
// has only some of a model's key heads may split elsewhere than one that has them all.
#ifndef TESSERA_KERNELS_PAGED_ATTENTION_H_
#define TESSERA_KERNELS_PAGED_ATTENTION_H_

#include <algorithm>
#include <cstdint>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/attention.h"

namespace tessera {

// Element type of K and V in pages: the call's own, or fp8 e4m3 with a scale for each key head.
enum class CacheDType : uint8_t { kFloat32, kFloat16, kBFloat16, kFloat8 };

// Bytes of one element.
constexpr int64_t SizeOf(CacheDType dtype) {
  return dtype == CacheDType::kFloat8 ? 1 : dtype == CacheDType::kFloat32 ? 4 : 2;
}

// "float32", "float16", "bfloat16", "float8_e4m3".
absl::string_view Name(CacheDType dtype);

// The type that stores elements of `dtype` as they are.
constexpr CacheDType CacheDTypeFor(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return CacheDType::kFloat16;
    case DType::kBFloat16:
      return CacheDType::kBFloat16;
    case DType::kFloat32:
      break;
  }
  return CacheDType::kFloat32;
}

inline constexpr int64_t kMaxPageTokens = 4096;

// What all sequences of one call have in common.
struct PagedParams {
  AttentionParams attention;                      // dtype is that of q, of new k and v, and of o
  CacheDType cache_dtype = CacheDType::kFloat32;  // CacheDTypeFor(attention.dtype) or kFloat8
  int64_t page_tokens = 64;                       // a power of two, 1 to kMaxPageTokens
  int64_t page_stride = 0;  // elements from one page to the next; of K as of V, as is the following
  Strides strides = {};     // within a page, in elements: from token to token, from key head to key head
};

// One layer's K and V: page p of it begins p * page_stride elements after k_pages and v_pages. Element types are
// params.cache_dtype.
struct PagedLayer {
  void* k_pages = nullptr;
  void* v_pages = nullptr;
  // [kv_heads] each, fp8 only: the value of an element is itself times its head's scale. Positive and finite.
  const float* k_scales = nullptr;
  const float* v_scales = nullptr;
};

// One step of one sequence. Elements of q, k, v and o are params.attention.dtype. Pointers of zero-length tensors may
// be null. Inputs, outputs and pages must not overlap. Pages that rows are appended to are in no other table of the
// call.
struct PagedSequence {
  int64_t q_len = 0;       // rows that attend
  int64_t kv_len = 0;      // tokens in the pages once the new ones are appended
  int64_t append_len = 0;  // new ones among them: they become tokens kv_len - append_len .. kv_len - 1
  PagedLayer layer = {};
  absl::Span<const int32_t> pages = {};  // in memory that the backend's device can read; at least kv_len's worth
  const void* q = nullptr;               // [q_len, q_heads, head_dim]
  const void* k = nullptr;               // [append_len, kv_heads, head_dim]
  const void* v = nullptr;               // [append_len, kv_heads, head_dim]
  void* o = nullptr;                     // [q_len, q_heads, head_dim]
  float* lse = nullptr;                  // [q_len, q_heads], or null where it is not wanted
  Strides q_strides = {};
  Strides k_strides = {};
  Strides v_strides = {};
  Strides o_strides = {};
  Strides lse_strides = {};
};

// The sequence's lengths alone, for models that know nothing of pages.
inline SequenceView LengthsOf(const PagedSequence& sequence) {
  return {.q_len = sequence.q_len, .kv_len = sequence.kv_len, .lse = sequence.lse};
}

// Stacked rows (q_len times query heads a key head) up to which a sequence's keys are split; more are work enough.
inline constexpr int64_t kMaxSplitRows = 48;

// Splits are at least kMinSplitKeys long, a multiple of kSplitStep, and no more than MostSplits. Of fewer keys the
// partial results would cost a share of the bandwidth: at 512 keys, 128 columns and 16-bit elements 0.8% for four rows.
inline constexpr int64_t kMinSplitKeys = 512;
inline constexpr int64_t kSplitStep = 64;
inline constexpr int64_t kMaxSplits = 64;

// Of a sequence. kLanes of them and its key heads together occupy a large GPU at one time: more would come in a second
// round, which the first leaves little to do.
constexpr int64_t MostSplits(int64_t kv_heads) {
  constexpr int64_t kLanes = 256;
  return std::clamp(kLanes / kv_heads, kMaxSplits / 2, kMaxSplits);
}

// Keys of one split of a sequence of `kv_len` tokens; split i begins at key i * SplitKeys(kv_len, kv_heads).
constexpr int64_t SplitKeys(int64_t kv_len, int64_t kv_heads) {
  const int64_t most = MostSplits(kv_heads);
  const int64_t shortest = kv_len / most + (kv_len % most != 0 ? 1 : 0);
  return std::max(kMinSplitKeys, (shortest + kSplitStep - 1) / kSplitStep * kSplitStep);
}

// One implementation on one device. Thread-safe: concurrent calls are allowed, as long as none appends to a page that
// another uses.
class PagedAttentionBackend {
 public:
  virtual ~PagedAttentionBackend() = default;

  // Appends, then attends, for every sequence. On a GPU the work is enqueued on `stream` and pointers are device
  // pointers; on the CPU it is done on return. `stats`, if not null, is overwritten.
  // INVALID_ARGUMENT where ValidatePagedBatch refuses and RESOURCE_EXHAUSTED where scratch memory cannot be had, both
  // with nothing written; INTERNAL for a device's error.
  virtual absl::Status Extend(const PagedParams& params, absl::Span<const PagedSequence> sequences, StreamHandle stream,
                              ForwardStats* stats) = 0;

  // Extend on the host, with an end before its time, as AttentionBackend::ForwardUntilStopped: with CANCELLED some of
  // the new rows may have been appended and outputs mean nothing; the call may be made again.
  virtual absl::Status ExtendUntilStopped(const PagedParams& params, absl::Span<const PagedSequence> sequences,
                                          const std::stop_token& /*stop*/, ForwardStats* stats) {
    return Extend(params, sequences, /*stream=*/nullptr, stats);
  }
};

// INVALID_ARGUMENT naming the field and the limit; a sequence's error names its index. Reads no page numbers, for they
// may lie on a device: that they are good is the caller's affair.
absl::Status ValidatePagedBatch(const PagedParams& params, absl::Span<const PagedSequence> sequences);

}  // namespace tessera

#endif  // TESSERA_KERNELS_PAGED_ATTENTION_H_
