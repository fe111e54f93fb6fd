// Keeps a uniform sample of a decode run's answers, and tells afterwards whether they were right.
#ifndef TESSERA_CLIENT_CPP_LOAD_DECODE_STEP_SAMPLER_H_
#define TESSERA_CLIENT_CPP_LOAD_DECODE_STEP_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "client/cpp/load/answer_check.h"
#include "client/cpp/load/call_shape.h"
#include "client/cpp/load/decode/row_bank.h"

namespace tessera::load {

// One sequence's part of a step. `start` is its layer's place in the bank.
struct SampledStep {
  int64_t start = 0;
  int64_t position = 0;  // of the step's first row
  int64_t tokens = 0;
  std::vector<std::byte> o;
};

// Thread-safe.
class StepSampler {
 public:
  // REQUIRES: capacity > 0.
  StepSampler(size_t capacity, uint64_t seed) : capacity_(capacity), random_(seed) {}

  // An answer to `step`, whose o is still empty. Copied only when it is taken.
  void Offer(SampledStep step, absl::Span<const std::byte> o);

  // As CheckAnswers. `heads` has the run's heads, head_dim and dtype. REQUIRES: no step is under way.
  CheckResult Check(const RowBank& bank, const CallShape& heads, int rows_per_answer, uint64_t seed);

 private:
  const size_t capacity_;
  absl::Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  uint64_t seen_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<SampledStep> sample_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_DECODE_STEP_SAMPLER_H_
