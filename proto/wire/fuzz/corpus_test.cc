// Replays the fuzzer's corpus, and mutants of it, without libFuzzer.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/wire/fuzz/differential.h"
#include "tests/random/seed.h"

namespace tessera::wire {
namespace {

std::vector<std::filesystem::path> CorpusFiles() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(TESSERA_CORPUS)) files.push_back(entry.path());
  return files;
}

std::string Read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(CorpusTest, TheCodecAgreesWithProtobuf) {
  const std::vector<std::filesystem::path> files = CorpusFiles();
  ASSERT_GE(files.size(), 10u) << "the corpus is missing";
  for (const std::filesystem::path& path : files) {
    const std::optional<std::string> difference = DifferenceFromProtobuf(Read(path));
    EXPECT_FALSE(difference.has_value()) << path << ": " << *difference;
  }
}

TEST(CorpusTest, TheCodecAgreesWithProtobufOnMutants) {
  constexpr int kMutantsEach = 200;
  const uint64_t seed = tessera::RandomSeed();
  std::mt19937_64 rng(seed);
  for (const std::filesystem::path& path : CorpusFiles()) {
    const std::string original = Read(path);
    if (original.empty()) continue;
    for (int i = 0; i < kMutantsEach; ++i) {
      std::string mutant = original;
      for (uint64_t changes = 1 + rng() % 4; changes > 0; --changes) {
        const size_t at = rng() % mutant.size();
        switch (rng() % 3) {
          case 0:
            mutant[at] = static_cast<char>(rng());
            break;
          case 1:
            mutant.insert(at, 1, static_cast<char>(rng()));
            break;
          default:
            if (mutant.size() > 1) mutant.erase(at, 1);
        }
      }
      const std::optional<std::string> difference = DifferenceFromProtobuf(mutant);
      ASSERT_FALSE(difference.has_value()) << "mutant " << i << " of " << path << ": " << *difference;
    }
  }
}

}  // namespace
}  // namespace tessera::wire
