#include "client/cpp/load/reference_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::load {

ReferenceRow ComputeReferenceRow(const CallShape& shape, const Payload& payload, int64_t sequence, int64_t row,
                                 int64_t head) {
  const int64_t d = shape.head_dim;
  const int64_t kv_head = head / (shape.q_heads / shape.kv_heads);
  const auto q_at = [&](int64_t i) {
    const int64_t token = sequence * shape.q_length + row;
    return static_cast<double>(
        LoadElement(shape.dtype, payload.q, static_cast<size_t>((token * shape.q_heads + head) * d + i)));
  };
  const auto kv_at = [&](absl::Span<const std::byte> tensor, int64_t key, int64_t i) {
    const int64_t token = sequence * shape.kv_length + key;
    return static_cast<double>(
        LoadElement(shape.dtype, tensor, static_cast<size_t>((token * shape.kv_heads + kv_head) * d + i)));
  };

  ReferenceRow result;
  result.o.assign(static_cast<size_t>(d), 0);
  result.magnitude.assign(static_cast<size_t>(d), 0);
  const KeyRange keys = VisibleKeys(shape, row);
  std::vector<double> scores;
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    double dot = 0;
    for (int64_t i = 0; i < d; ++i) dot += q_at(i) * kv_at(payload.k, key, i);
    scores.push_back(dot / std::sqrt(static_cast<double>(d)));
  }
  if (scores.empty()) {
    result.lse = -std::numeric_limits<double>::infinity();
    return result;
  }
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - top);
  result.lse = top + std::log(sum);
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    const double weight = std::exp(scores[static_cast<size_t>(key - keys.begin)] - result.lse);
    for (int64_t i = 0; i < d; ++i) {
      const double v = kv_at(payload.v, key, i);
      result.o[static_cast<size_t>(i)] += weight * v;
      result.magnitude[static_cast<size_t>(i)] += weight * std::fabs(v);
    }
  }
  return result;
}

}  // namespace tessera::load
