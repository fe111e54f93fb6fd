// Random paged batches for tests: the same rows in pages and, for comparison, in contiguous tensors.
#ifndef TESSERA_KERNELS_TESTING_PAGED_BATCH_H_
#define TESSERA_KERNELS_TESTING_PAGED_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "kernels/paged_attention.h"
#include "kernels/testing/random_batch.h"

namespace tessera {

struct PagedLengths {
  int64_t q_len = 0;
  int64_t kv_len = 0;
  int64_t append_len = 0;
};

// How a page's rows lie in memory.
enum class PageLayout {
  kTokensOuter,  // [page_tokens, kv_heads, head_dim]
  kHeadsOuter,   // [kv_heads, page_tokens, head_dim]
  kPadded,       // as kTokensOuter, with unused elements after each row
};

// What a batch's pages are like. Scales are powers of two, so that fp8 values are exact in every dtype.
struct PageShape {
  CacheDType cache_dtype = CacheDType::kFloat32;
  int64_t page_tokens = 64;
  PageLayout layout = PageLayout::kTokensOuter;
};

// Pages are drawn at random from a pool twice as large as the batch needs. All that is no row of a sequence, or not yet
// one, is poison (NaN).
class PagedBatch {
 public:
  PagedBatch(const AttentionParams& attention, const PageShape& shape, absl::Span<const PagedLengths> lengths,
             uint64_t seed, float deviation = 1.0f);

  const PagedParams& params() const { return params_; }
  size_t size() const { return lengths_.size(); }

  // Views, valid as long as the batch. Each call appends the same new rows to the same places.
  PagedSequence View(size_t i, bool with_lse = true);
  std::vector<PagedSequence> Views(bool with_lse = true);

  // The same attention over contiguous k and v; q, o and lse are the tensors of the paged views.
  RandomBatch& contiguous() { return contiguous_; }
  // Sets a row of K or V in the contiguous tensors and in the pages.
  void SetKeyRow(size_t i, int64_t token, int64_t head, float value);
  void SetValueRow(size_t i, int64_t token, int64_t head, float value);

  // All of the pages' memory: for tests that keep a copy of it elsewhere.
  absl::Span<std::byte> memory() { return absl::MakeSpan(memory_); }
  // Takes the new rows out of the pages again.
  void ForgetAppended() { memory_ = before_; }
  // Whether the pages hold every sequence's rows, the new ones too, and poison everywhere else.
  bool PagesAreAsExpected() const { return memory_ == after_; }

 private:
  int64_t Offset(size_t i, int64_t token, int64_t head) const;  // bytes
  void Encode(size_t i, int64_t token, int64_t head, int64_t c, float k, float v, std::vector<std::byte>& memory) const;
  void SetRow(size_t i, int64_t token, int64_t head);
  void Quantize(size_t i, int64_t token, int64_t head);

  PagedParams params_;
  std::vector<PagedLengths> lengths_;
  RandomBatch contiguous_;
  int64_t value_offset_ = 0;  // elements from a page's K to its V
  std::vector<float> k_scales_, v_scales_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<std::byte> before_, after_, memory_;
};

}  // namespace tessera

#endif  // TESSERA_KERNELS_TESTING_PAGED_BATCH_H_
