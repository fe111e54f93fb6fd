#include "client/cpp/load/answer_check.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "client/cpp/load/reference_attention.h"

namespace tessera::load {
namespace {

constexpr double kLseTolerance = 1e-3;
constexpr double kAbsoluteFloor = 1e-6;

double OutputTolerance(v1::DataType dtype, double magnitude) {
  double unit = std::ldexp(1.0, -8);  // bf16: distance of neighbours near 1, halved
  if (dtype == v1::DATA_TYPE_FLOAT16) unit = std::ldexp(1.0, -11);
  // fp32: the scores' own rounding, through the exponential, outweighs that of the weights.
  if (dtype == v1::DATA_TYPE_FLOAT32) unit = std::ldexp(1.0, -19);
  return 4 * unit * magnitude + kAbsoluteFloor;
}

// |error| / tolerance, infinite for NaN.
double Share(double actual, double expected, double tolerance) {
  if (actual == expected) return 0;  // both -inf
  const double share = std::fabs(actual - expected) / tolerance;
  return std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
}

}  // namespace

void CheckAnswer(const CallShape& shape, const Payload& payload, absl::Span<const std::byte> o,
                 absl::Span<const std::byte> lse, int rows_per_answer, std::mt19937_64& random, CheckResult* result) {
  const auto below = [&random](int64_t bound) { return std::uniform_int_distribution<int64_t>(0, bound - 1)(random); };
  ++result->answers;
  const int64_t pairs = shape.sequences * shape.q_length * shape.q_heads;
  for (int64_t n = 0; n < std::min<int64_t>(rows_per_answer, pairs); ++n) {
    const int64_t sequence = below(shape.sequences);
    const int64_t row = below(shape.q_length);
    const int64_t head = below(shape.q_heads);
    const ReferenceRow reference = ComputeReferenceRow(shape, payload, sequence, row, head);
    const auto pair = static_cast<size_t>((sequence * shape.q_length + row) * shape.q_heads + head);
    double worst = 0;
    for (size_t i = 0; i < reference.o.size(); ++i) {
      const double actual = LoadElement(shape.dtype, o, pair * reference.o.size() + i);
      worst = std::max(worst, Share(actual, reference.o[i], OutputTolerance(shape.dtype, reference.magnitude[i])));
    }
    if (shape.return_lse) {
      const double actual = LoadElement(v1::DATA_TYPE_FLOAT32, lse, pair);
      worst = std::max(worst, Share(actual, reference.lse, kLseTolerance));
    }
    ++result->rows;
    result->worst = std::max(result->worst, worst);
    if (worst <= 1) continue;
    if (++result->wrong_rows == 1) {
      result->first_wrong = absl::StrFormat("%s: sequence %d, row %d, head %d: error is %.3g of what is allowed",
                                            shape.name, sequence, row, head, worst);
    }
  }
}

CheckResult CheckAnswers(absl::Span<const SampledAnswer> answers, absl::Span<const CallShape> shapes,
                         const PayloadPool& payloads, int rows_per_answer, uint64_t seed) {
  CheckResult result;
  std::mt19937_64 random(seed);
  for (const SampledAnswer& answer : answers) {
    CheckAnswer(shapes[answer.call.shape], payloads.Get(answer.call.shape, answer.call.payload), answer.o, answer.lse,
                rows_per_answer, random, &result);
  }
  return result;
}

}  // namespace tessera::load
