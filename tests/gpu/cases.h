// The cases that attention_check runs: random ones, and chosen ones named after the faults in docs/numerics.md.
#ifndef TESSERA_TESTS_GPU_CASES_H_
#define TESSERA_TESTS_GPU_CASES_H_

#include <random>
#include <vector>

#include "tests/gpu/attention_case.h"

namespace tessera::gpu_test {

float DefaultScale(int head_dim);

// Any combination of features, lengths at most max_len.
Case RandomCase(std::mt19937_64& random, const std::vector<DType>& dtypes, int64_t max_len);

// The same for every seed, but for the values.
std::vector<Case> ChosenCases(DType dtype);

}  // namespace tessera::gpu_test

#endif  // TESSERA_TESTS_GPU_CASES_H_
