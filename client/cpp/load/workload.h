// Which call comes next: a seeded draw from a weighted mix of shapes.
#ifndef TESSERA_CLIENT_CPP_LOAD_WORKLOAD_H_
#define TESSERA_CLIENT_CPP_LOAD_WORKLOAD_H_

#include <cstdint>
#include <random>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "client/cpp/load/call_shape.h"
#include "client/cpp/load/target.h"

namespace tessera::load {

// Thread-safe.
class Workload {
 public:
  // REQUIRES: at least one shape, every weight over 0.
  Workload(std::vector<CallShape> shapes, uint64_t seed);

  absl::Span<const CallShape> shapes() const { return shapes_; }

  // Shapes are drawn independently, each with the probability weight / sum of weights; payload ordinals count up.
  Call Next();

 private:
  const std::vector<CallShape> shapes_;
  absl::Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  std::discrete_distribution<size_t> mix_ ABSL_GUARDED_BY(mutex_);
  uint64_t issued_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_WORKLOAD_H_
