// How far a backend's results lie from the reference in double.
#ifndef TESSERA_KERNELS_TESTING_ACCURACY_H_
#define TESSERA_KERNELS_TESTING_ACCURACY_H_

#include "kernels/reference/reference.h"
#include "kernels/testing/random_batch.h"

namespace tessera {

// Largest differences over all elements of one sequence: absolute ones of o, and of lse relative to its size where that
// is above 1, since float32 resolves a large LSE no better. Infinite where just one side is NaN or infinite;
// both NaN, or both the same infinity, count as equal.
struct Deviation {
  double o = 0;
  double lse = 0;
};

Deviation DeviationFrom(const ReferenceOutput& expected, const AttentionParams& params, const TestSequence& actual);

}  // namespace tessera

#endif  // TESSERA_KERNELS_TESTING_ACCURACY_H_
