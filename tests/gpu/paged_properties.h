// What must hold between calls of the GPU's attention over pages.
#ifndef TESSERA_TESTS_GPU_PAGED_PROPERTIES_H_
#define TESSERA_TESTS_GPU_PAGED_PROPERTIES_H_

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/paged_attention.h"

namespace tessera::gpu_test {

struct PagedProperty {
  std::string name;
  // Empty where it holds, else what is wrong.
  std::function<std::string(PagedAttentionBackend& backend, std::mt19937_64& random)> check;
};

std::vector<PagedProperty> PagedProperties();

}  // namespace tessera::gpu_test

#endif  // TESSERA_TESTS_GPU_PAGED_PROPERTIES_H_
