#include "kernels/testing/accuracy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera {
namespace {

double Difference(double expected, double actual) {
  if (std::isnan(expected) && std::isnan(actual)) return 0;
  if (expected == actual) return 0;
  if (!std::isfinite(expected) || !std::isfinite(actual)) return std::numeric_limits<double>::infinity();
  return std::abs(expected - actual);
}

}  // namespace

Deviation DeviationFrom(const ReferenceOutput& expected, const AttentionParams& params, const TestSequence& actual) {
  Deviation result;
  for (int64_t row = 0; row < actual.lengths.q_len * params.q_heads; ++row) {
    const int64_t token = row / params.q_heads;
    const int64_t head = row % params.q_heads;
    for (int64_t c = 0; c < params.head_dim; ++c) {
      result.o = std::max(result.o, Difference(expected.o[row * params.head_dim + c], actual.o.Get(token, head, c)));
    }
    const double size = std::isfinite(expected.lse[row]) ? std::max(1.0, std::abs(expected.lse[row])) : 1.0;
    result.lse = std::max(result.lse, Difference(expected.lse[row], actual.lse.Get(token, head, 0)) / size);
  }
  return result;
}

}  // namespace tessera
