// Whether sampled answers are right.
#ifndef TESSERA_CLIENT_CPP_LOAD_ANSWER_CHECK_H_
#define TESSERA_CLIENT_CPP_LOAD_ANSWER_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "absl/types/span.h"
#include "client/cpp/load/answer_sampler.h"
#include "client/cpp/load/call_shape.h"
#include "client/cpp/load/payload_pool.h"

namespace tessera::load {

struct CheckResult {
  int64_t answers = 0;
  int64_t rows = 0;  // (row, head) pairs recomputed
  int64_t wrong_rows = 0;
  double worst = 0;         // largest error as a share of what is allowed; NaN counts as infinite
  std::string first_wrong;  // for people; empty where none is
};

// Recomputes up to `rows_per_answer` random (row, head) pairs of an answer in double precision, and adds what comes of
// it to `result`. An element of o may be off by 4 units of the element type's rounding times sum(weight * |v|): one
// each for the weights and the result, twice over. LSE may be off by 1e-3.
void CheckAnswer(const CallShape& shape, const Payload& payload, absl::Span<const std::byte> o,
                 absl::Span<const std::byte> lse, int rows_per_answer, std::mt19937_64& random, CheckResult* result);

// The same of each answer.
CheckResult CheckAnswers(absl::Span<const SampledAnswer> answers, absl::Span<const CallShape> shapes,
                         const PayloadPool& payloads, int rows_per_answer, uint64_t seed);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_ANSWER_CHECK_H_
