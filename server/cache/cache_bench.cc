// What one decode step of many sequences costs the cache: per layer one Reserve over all of them, and one Commit.
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "server/cache/sequence_cache.h"
#include "server/clock/clock.h"

namespace tessera {
namespace {

constexpr int64_t kSequences = 256;
constexpr int kLayers = 32;
constexpr int64_t kPageTokens = 64;
constexpr int64_t kMaxTokens = int64_t{1} << 17;

class Filled {
 public:
  explicit Filled(int64_t length)
      : cache_({.layers = kLayers,
                .page_tokens = kPageTokens,
                .device_pages = static_cast<int32_t>(kSequences * (length / kPageTokens + 20)),
                .max_sequences = kSequences,
                .max_tokens = kMaxTokens},
               Clock::Real()),
        handles_(*cache_.Create("tenant", kSequences)) {
    for (int layer = 0; layer < kLayers; ++layer) Step(layer, length);
  }

  // All sequences, `tokens` more in one layer.
  bool Step(int layer, int64_t tokens) {
    entries_.clear();
    for (const SequenceHandle& handle : handles_) entries_.push_back({handle, layer, tokens});
    auto step = cache_.Reserve("tenant", entries_);
    if (!step.ok()) return false;
    benchmark::DoNotOptimize(step->entry(0).pages.data());
    step->Commit();
    return true;
  }

  void Truncate(int64_t length) {
    for (const SequenceHandle& handle : handles_) (void)cache_.Truncate("tenant", handle, length);
  }

 private:
  SequenceCache cache_;
  const std::vector<SequenceHandle> handles_;
  std::vector<StepEntry> entries_;
};

// Arg: tokens that each sequence has. An item is one sequence's token in one layer.
void BM_Append(benchmark::State& state) {
  constexpr int64_t kTokensInPlace = 1000;  // before the sequences are cut back, so that pages last
  Filled cache(state.range(0));
  int64_t tokens = 0;
  for (auto _ : state) {
    for (int layer = 0; layer < kLayers; ++layer) {
      if (!cache.Step(layer, 1)) state.SkipWithError("refused");
    }
    if (++tokens == kTokensInPlace) {
      state.PauseTiming();
      cache.Truncate(state.range(0));
      tokens = 0;
      state.ResumeTiming();
    }
  }
  state.SetItemsProcessed(state.iterations() * kSequences * kLayers);
}
BENCHMARK(BM_Append)->Arg(128)->Arg(4096)->Arg(65536)->Unit(benchmark::kMicrosecond);

void BM_Lookup(benchmark::State& state) {
  Filled cache(state.range(0));
  for (auto _ : state) {
    for (int layer = 0; layer < kLayers; ++layer) {
      if (!cache.Step(layer, 0)) state.SkipWithError("refused");
    }
  }
  state.SetItemsProcessed(state.iterations() * kSequences * kLayers);
}
BENCHMARK(BM_Lookup)->Arg(128)->Arg(4096)->Arg(65536)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tessera
