#include "client/cpp/load/workload.h"

#include <utility>

namespace tessera::load {
namespace {

std::discrete_distribution<size_t> MixOf(absl::Span<const CallShape> shapes) {
  std::vector<double> weights;
  for (const CallShape& shape : shapes) weights.push_back(shape.weight);
  return std::discrete_distribution<size_t>(weights.begin(), weights.end());
}

}  // namespace

Workload::Workload(std::vector<CallShape> shapes, uint64_t seed)
    : shapes_(std::move(shapes)), random_(seed), mix_(MixOf(shapes_)) {}

Call Workload::Next() {
  absl::MutexLock lock(&mutex_);
  return {mix_(random_), issued_++};
}

}  // namespace tessera::load
