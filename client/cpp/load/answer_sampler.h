// Keeps a uniform sample of a run's answers, to be checked when the run is over and checking disturbs nothing.
#ifndef TESSERA_CLIENT_CPP_LOAD_ANSWER_SAMPLER_H_
#define TESSERA_CLIENT_CPP_LOAD_ANSWER_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/load/target.h"

namespace tessera::load {

struct SampledAnswer {
  Call call;
  std::vector<std::byte> o;
  std::vector<std::byte> lse;
};

// A target that passes calls on and takes its sample from the OK answers: each of them ends in the sample with the same
// probability (reservoir sampling). Copies an answer only when it is taken. Thread-safe.
class AnswerSampler : public Target {
 public:
  // `inner` must outlive it. REQUIRES: capacity > 0.
  AnswerSampler(Target* inner, size_t capacity, uint64_t seed);

  void Issue(const Call& call, AnswerCallback done) override;

  // REQUIRES: no call is in flight.
  std::vector<SampledAnswer> TakeSample();

 private:
  void Offer(const Call& call, const Answer& answer);

  Target* const inner_;
  const size_t capacity_;
  absl::Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  uint64_t seen_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<SampledAnswer> sample_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_ANSWER_SAMPLER_H_
