// The seed of a test's random inputs.
#ifndef TESSERA_TESTS_RANDOM_SEED_H_
#define TESSERA_TESTS_RANDOM_SEED_H_

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace tessera {

// A new one for each run; TESSERA_TEST_SEED in the environment replays a printed one. Printed at each call.
inline uint64_t RandomSeed() {
  const char* const chosen = std::getenv("TESSERA_TEST_SEED");
  const uint64_t seed = chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : std::random_device()();
  std::printf("TESSERA_TEST_SEED=%" PRIu64 "\n", seed);
  return seed;
}

}  // namespace tessera

#endif  // TESSERA_TESTS_RANDOM_SEED_H_
