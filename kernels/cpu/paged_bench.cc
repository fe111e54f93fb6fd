// Bytes of K and V a second that decoding reads, and the rate of a prefill's chunks, on one thread.
#include <cstdint>
#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/paged_backend.h"
#include "kernels/testing/paged_batch.h"

namespace tessera {
namespace {

constexpr int kHeadDim = 128;

AttentionParams Attention(int32_t q_heads, int32_t kv_heads) {
  return {.dtype = DType::kBFloat16,
          .q_heads = q_heads,
          .kv_heads = kv_heads,
          .head_dim = kHeadDim,
          .scale = 0.088f,
          .mask = Mask::Causal()};
}

// Args: sequences, tokens of each, query heads a key head, fp8 or not.
void BM_Decode(benchmark::State& state) {
  constexpr int32_t kKeyHeads = 2;
  const auto backend = MakeCpuPagedBackend(1);
  const int32_t group = static_cast<int32_t>(state.range(2));
  const CacheDType dtype = state.range(3) != 0 ? CacheDType::kFloat8 : CacheDType::kBFloat16;
  PagedBatch batch(Attention(kKeyHeads * group, kKeyHeads), {dtype, 64, PageLayout::kHeadsOuter},
                   std::vector<PagedLengths>(state.range(0), {1, state.range(1), 1}), 1);
  const std::vector<PagedSequence> views = batch.Views();
  for (auto _ : state) {
    if (!backend->Extend(batch.params(), views, nullptr, nullptr).ok()) state.SkipWithError("refused");
  }
  const int64_t bytes = 2 * state.range(0) * state.range(1) * kKeyHeads * kHeadDim * SizeOf(dtype);
  state.SetBytesProcessed(state.iterations() * bytes);
}
BENCHMARK(BM_Decode)
    ->ArgNames({"sequences", "tokens", "group", "fp8"})
    ->Args({1, 8192, 1, 0})
    ->Args({1, 8192, 4, 0})
    ->Args({1, 8192, 4, 1})
    ->Args({1, 8192, 16, 0})
    ->Args({16, 1024, 4, 0})
    ->Unit(benchmark::kMicrosecond);

// Args: new tokens, tokens before them. The same shape through pages and through contiguous tensors.
void BM_Prefill(benchmark::State& state) {
  const auto backend = MakeCpuPagedBackend(1);
  const int64_t rows = state.range(0);
  const int64_t keys = rows + state.range(1);
  PagedBatch batch(Attention(4, 1), {CacheDType::kBFloat16, 64}, std::vector<PagedLengths>{{rows, keys, rows}}, 1);
  const std::vector<PagedSequence> views = batch.Views();
  ForwardStats stats;
  for (auto _ : state) {
    if (!backend->Extend(batch.params(), views, nullptr, &stats).ok()) state.SkipWithError("refused");
  }
  state.counters["flops"] = benchmark::Counter(stats.flops, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_Prefill)->Args({512, 0})->Args({512, 4096})->Unit(benchmark::kMillisecond);

void BM_ContiguousForward(benchmark::State& state) {
  const auto backend = MakeCpuBackend(1);
  const int64_t rows = state.range(0);
  RandomBatch batch(Attention(4, 1), std::vector<SequenceLengths>{{rows, rows + state.range(1)}}, 1);
  const std::vector<SequenceView> views = batch.Views();
  ForwardStats stats;
  for (auto _ : state) {
    if (!backend->Forward(batch.params(), views, nullptr, &stats).ok()) state.SkipWithError("refused");
  }
  state.counters["flops"] = benchmark::Counter(stats.flops, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_ContiguousForward)->Args({512, 0})->Args({512, 4096})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tessera
