#include "client/cpp/load/answer_sampler.h"

#include <utility>

namespace tessera::load {

AnswerSampler::AnswerSampler(Target* inner, size_t capacity, uint64_t seed)
    : inner_(inner), capacity_(capacity), random_(seed) {}

void AnswerSampler::Issue(const Call& call, AnswerCallback done) {
  inner_->Issue(call, [this, call, done = std::move(done)](const Answer& answer) {
    if (answer.status.ok()) Offer(call, answer);
    done(answer);
  });
}

void AnswerSampler::Offer(const Call& call, const Answer& answer) {
  absl::MutexLock lock(&mutex_);
  const uint64_t place = std::uniform_int_distribution<uint64_t>(0, seen_++)(random_);
  if (sample_.size() == capacity_ && place >= capacity_) return;
  SampledAnswer& slot = sample_.size() < capacity_ ? sample_.emplace_back() : sample_[place];
  slot.call = call;
  slot.o.assign(answer.o.begin(), answer.o.end());
  slot.lse.assign(answer.lse.begin(), answer.lse.end());
}

std::vector<SampledAnswer> AnswerSampler::TakeSample() {
  absl::MutexLock lock(&mutex_);
  return std::move(sample_);
}

}  // namespace tessera::load
