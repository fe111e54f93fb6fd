// Compares a backend's output with attention in double precision.
#ifndef TESSERA_TESTS_GPU_COMPARISON_H_
#define TESSERA_TESTS_GPU_COMPARISON_H_

#include <string>

#include "tests/gpu/attention_case.h"

namespace tessera::gpu_test {

// Empty where the output is right, else what is wrong. stores_scores: the backend keeps scores in the element type.
// Raises *worst_ratio to the largest error over its bound.
std::string Compare(const Case& test, const Inputs& inputs, const Output& output, bool stores_scores,
                    double* worst_ratio);

}  // namespace tessera::gpu_test

#endif  // TESSERA_TESTS_GPU_COMPARISON_H_
