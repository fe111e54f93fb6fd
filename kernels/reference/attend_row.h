// One row of attention by its definition, wherever its inputs lie.
#ifndef TESSERA_KERNELS_REFERENCE_ATTEND_ROW_H_
#define TESSERA_KERNELS_REFERENCE_ATTEND_ROW_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/attention.h"
#include "kernels/mask.h"

namespace tessera {

// Writes o [head_dim] and returns the row's LSE, over `keys`. `q(c)`, `k(key, c)` and `v(key, c)` give elements as
// double. `scores` is room for one past the last key.
template <typename Query, typename Key, typename Value>
double AttendRow(const AttentionParams& params, const KeyRange& keys, const Query& q, const Key& k, const Value& v,
                 std::vector<double>& scores, double* o) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double max = -kInfinity;
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    double dot = 0;
    for (int c = 0; c < params.head_dim; ++c) dot += q(c) * k(j, c);
    double score = dot * params.scale;
    if (params.softcap > 0) score = params.softcap * std::tanh(score / params.softcap);
    scores[j] = score;
    if (score > max || std::isnan(score)) max = score;  // NaN stays: nothing compares above it
  }
  std::fill_n(o, params.head_dim, 0.0);
  if (max == -kInfinity) return -kInfinity;
  double sum = 0;
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    const double weight = std::exp(scores[j] - max);
    sum += weight;
    for (int c = 0; c < params.head_dim; ++c) o[c] += weight * v(j, c);
  }
  for (int c = 0; c < params.head_dim; ++c) o[c] /= sum;
  return max + std::log(sum);
}

}  // namespace tessera

#endif  // TESSERA_KERNELS_REFERENCE_ATTEND_ROW_H_
