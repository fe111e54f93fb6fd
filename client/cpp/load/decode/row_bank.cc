#include "client/cpp/load/decode/row_bank.h"

#include <algorithm>
#include <random>

#include "absl/random/gaussian_distribution.h"

namespace tessera::load {
namespace {

std::vector<std::byte> RandomRows(int64_t row_bytes, v1::DataType dtype, int64_t most_tokens, std::mt19937_64& random) {
  absl::gaussian_distribution<float> normal;
  std::vector<std::byte> rows(static_cast<size_t>((RowBank::kRows + most_tokens) * row_bytes));
  const auto repeat_from = static_cast<size_t>(RowBank::kRows * row_bytes);
  const size_t elements = repeat_from / static_cast<size_t>(ElementBytes(dtype));
  for (size_t i = 0; i < elements; ++i) StoreElement(dtype, normal(random), i, absl::MakeSpan(rows));
  for (size_t i = repeat_from; i < rows.size(); ++i) rows[i] = rows[i - repeat_from];
  return rows;
}

absl::Span<const std::byte> Cut(const std::vector<std::byte>& rows, int64_t row_bytes, int64_t row, int64_t tokens) {
  return absl::MakeConstSpan(rows).subspan(static_cast<size_t>(row % RowBank::kRows * row_bytes),
                                           static_cast<size_t>(tokens * row_bytes));
}

}  // namespace

RowBank::RowBank(int64_t q_heads, int64_t kv_heads, int64_t head_dim, v1::DataType dtype, int64_t most_tokens,
                 uint64_t seed)
    : q_row_bytes_(q_heads * head_dim * ElementBytes(dtype)), kv_row_bytes_(kv_heads * head_dim * ElementBytes(dtype)) {
  std::mt19937_64 random(seed);
  q_ = RandomRows(q_row_bytes_, dtype, most_tokens, random);
  k_ = RandomRows(kv_row_bytes_, dtype, most_tokens, random);
  v_ = RandomRows(kv_row_bytes_, dtype, most_tokens, random);
}

absl::Span<const std::byte> RowBank::Q(int64_t start, int64_t position, int64_t tokens) const {
  return Cut(q_, q_row_bytes_, start + position, tokens);
}

absl::Span<const std::byte> RowBank::K(int64_t start, int64_t position, int64_t tokens) const {
  return Cut(k_, kv_row_bytes_, start + position, tokens);
}

absl::Span<const std::byte> RowBank::V(int64_t start, int64_t position, int64_t tokens) const {
  return Cut(v_, kv_row_bytes_, start + position, tokens);
}

int64_t RowBank::StartOf(uint64_t ordinal, int64_t layer) {
  return static_cast<int64_t>((ordinal * 389 + static_cast<uint64_t>(layer) * 97) % static_cast<uint64_t>(kRows));
}

}  // namespace tessera::load
