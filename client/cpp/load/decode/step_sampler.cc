#include "client/cpp/load/decode/step_sampler.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::load {
namespace {

// Keys 0 to `keys` - 1 of a layer that starts at `start`, one after the other.
std::vector<std::byte> Gather(absl::Span<const std::byte> (RowBank::*rows)(int64_t, int64_t, int64_t) const,
                              const RowBank& bank, int64_t start, int64_t keys) {
  std::vector<std::byte> gathered;
  gathered.reserve(static_cast<size_t>(keys * bank.kv_row_bytes()));
  for (int64_t key = 0; key < keys; ++key) {
    const absl::Span<const std::byte> row = (bank.*rows)(start, key, 1);
    gathered.insert(gathered.end(), row.begin(), row.end());
  }
  return gathered;
}

}  // namespace

void StepSampler::Offer(SampledStep step, absl::Span<const std::byte> o) {
  absl::MutexLock lock(&mutex_);
  const uint64_t place = std::uniform_int_distribution<uint64_t>(0, seen_++)(random_);
  if (sample_.size() == capacity_ && place >= capacity_) return;
  step.o.assign(o.begin(), o.end());
  SampledStep& slot = sample_.size() < capacity_ ? sample_.emplace_back() : sample_[place];
  slot = std::move(step);
}

CheckResult StepSampler::Check(const RowBank& bank, const CallShape& heads, int rows_per_answer, uint64_t seed) {
  absl::MutexLock lock(&mutex_);
  CheckResult result;
  std::mt19937_64 random(seed);
  for (const SampledStep& step : sample_) {
    CallShape shape = heads;
    shape.q_length = step.tokens;
    shape.kv_length = step.position + step.tokens;
    shape.mask = v1::MASK_KIND_CAUSAL;
    shape.name = absl::StrCat(step.tokens, " tokens at ", step.position);
    const std::vector<std::byte> k = Gather(&RowBank::K, bank, step.start, shape.kv_length);
    const std::vector<std::byte> v = Gather(&RowBank::V, bank, step.start, shape.kv_length);
    const Payload payload = {bank.Q(step.start, step.position, step.tokens), k, v};
    CheckAnswer(shape, payload, step.o, {}, rows_per_answer, random, &result);
  }
  return result;
}

}  // namespace tessera::load
