// Properties of a backend that are about more than one call. Each returns what is wrong, or nothing.
#ifndef TESSERA_TESTS_GPU_PROPERTIES_H_
#define TESSERA_TESTS_GPU_PROPERTIES_H_

#include <random>
#include <string>

#include "kernels/attention.h"

namespace tessera::gpu_test {

// F12: the same bits in 100 repeats, and alone or among others.
std::string CheckRepeatable(AttentionBackend& backend, DType dtype, int d, Mask mask, std::mt19937_64& random);

// F10: K and V rows 2^28 elements apart, so that offsets pass 2^32 bytes, give the same bits as rows side by side.
std::string CheckFarApart(AttentionBackend& backend, DType dtype, std::mt19937_64& random);

// F06: a window of all keys before a row's own gives the same bits as the causal mask.
std::string CheckWindowEqualsCausal(AttentionBackend& backend, DType dtype, std::mt19937_64& random);

}  // namespace tessera::gpu_test

#endif  // TESSERA_TESTS_GPU_PROPERTIES_H_
