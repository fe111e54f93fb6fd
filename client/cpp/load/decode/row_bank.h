// Random rows of q, k and v, made once, that all sequences of a run consist of.
#ifndef TESSERA_CLIENT_CPP_LOAD_DECODE_ROW_BANK_H_
#define TESSERA_CLIENT_CPP_LOAD_DECODE_ROW_BANK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "client/cpp/load/element_format.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::load {

// The row of a sequence's layer at `position` is the bank's row (start + position) modulo kRows, so that what was sent
// need not be kept to be known. Immutable once made, so safe to read from any thread.
class RowBank {
 public:
  // A prime: rows repeat out of step with pages and splits, which have powers of two.
  static constexpr int64_t kRows = 1021;

  // Elements from a standard normal distribution, the same for the same seed. `most_tokens`: of one Rows.
  RowBank(int64_t q_heads, int64_t kv_heads, int64_t head_dim, v1::DataType dtype, int64_t most_tokens, uint64_t seed);

  int64_t q_row_bytes() const { return q_row_bytes_; }
  int64_t kv_row_bytes() const { return kv_row_bytes_; }

  // `tokens` rows from `position` on. REQUIRES: tokens <= most_tokens.
  absl::Span<const std::byte> Q(int64_t start, int64_t position, int64_t tokens) const;
  absl::Span<const std::byte> K(int64_t start, int64_t position, int64_t tokens) const;
  absl::Span<const std::byte> V(int64_t start, int64_t position, int64_t tokens) const;

  // Where layer `layer` of sequence `ordinal` starts: neighbours have nothing in common.
  static int64_t StartOf(uint64_t ordinal, int64_t layer);

 private:
  const int64_t q_row_bytes_;
  const int64_t kv_row_bytes_;
  // kRows rows, and then the first ones again, so that any rows that follow one another lie so.
  std::vector<std::byte> q_, k_, v_;
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_DECODE_ROW_BANK_H_
