// The same sequence gives the same bits: on every call, whoever shares the batch, however many threads there are, in
// whichever pages, however the rows came into them. And what a row does not see does not reach it.
#include <sys/mman.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <stop_token>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/paged_backend.h"
#include "kernels/testing/paged_batch.h"
#include "tests/random/seed.h"

namespace tessera {
namespace {

struct Bits {
  std::vector<std::byte> o, lse;
  friend bool operator==(const Bits&, const Bits&) = default;
};

Bits BitsOf(const TestSequence& sequence) { return {sequence.o.Bytes(), sequence.lse.Bytes()}; }

AttentionParams Params(DType dtype) {
  return {.dtype = dtype, .q_heads = 6, .kv_heads = 2, .head_dim = 72, .scale = 0.118f, .mask = Mask::Causal()};
}

std::vector<Bits> BitsAfter(PagedAttentionBackend& backend, PagedBatch& batch) {
  batch.contiguous().PoisonOutputs();
  batch.ForgetAppended();
  EXPECT_TRUE(backend.Extend(batch.params(), batch.Views(), nullptr, nullptr).ok());
  std::vector<Bits> bits;
  for (size_t i = 0; i < batch.size(); ++i) bits.push_back(BitsOf(batch.contiguous()[i]));
  return bits;
}

std::vector<PagedLengths> MixedLengths() {
  return {{1, 1700, 1}, {1, 3, 1}, {0, 40, 0}, {3, 600, 3}, {60, 300, 60}, {1, 0, 0}, {16, 16, 16}, {17, 1100, 0}};
}

TEST(PagedRepeatabilityTest, RepeatsAreBitwiseEqual) {
  const auto cpu = MakeCpuPagedBackend(2);
  PagedBatch batch(Params(DType::kBFloat16), {CacheDType::kBFloat16, 16}, MixedLengths(), 1);
  const std::vector<Bits> first = BitsAfter(*cpu, batch);
  for (int repeat = 0; repeat < 4; ++repeat) EXPECT_TRUE(BitsAfter(*cpu, batch) == first);
}

TEST(PagedRepeatabilityTest, AStoppedCallDoesNoMoreWorkAndCanBeMadeAgain) {
  const auto cpu = MakeCpuPagedBackend(2);
  PagedBatch batch(Params(DType::kFloat32), {CacheDType::kFloat32, 16}, {{400, 400, 400}, {1, 1700, 1}}, 1);
  const std::vector<Bits> expected = BitsAfter(*cpu, batch);
  batch.contiguous().PoisonOutputs();
  batch.ForgetAppended();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(cpu->ExtendUntilStopped(batch.params(), batch.Views(), stop.get_token(), nullptr).code(),
            absl::StatusCode::kCancelled);
  for (const int64_t row : {0, 200, 399}) {
    EXPECT_TRUE(std::isnan(batch.contiguous()[0].o.Get(row, 0, 0))) << "poison is NaN, row " << row;
  }
  EXPECT_TRUE(std::isnan(batch.contiguous()[1].o.Get(0, 0, 0)));
  EXPECT_TRUE(BitsAfter(*cpu, batch) == expected);
}

TEST(PagedRepeatabilityTest, BatchmatesDoNotMatter) {
  std::mt19937_64 random(RandomSeed());
  const auto cpu = MakeCpuPagedBackend(2);
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const bool fp8 : {false, true}) {
      std::vector<PagedLengths> lengths = MixedLengths();
      for (int i = 0; i < 30; ++i) lengths.push_back({1, static_cast<int64_t>(random() % 1500), 0});
      PagedBatch batch(Params(dtype), {fp8 ? CacheDType::kFloat8 : CacheDTypeFor(dtype), 32}, lengths, random());
      const std::vector<Bits> together = BitsAfter(*cpu, batch);
      batch.contiguous().PoisonOutputs();
      batch.ForgetAppended();
      for (size_t i = 0; i < batch.size(); ++i) {
        const PagedSequence alone = batch.View(i);
        ASSERT_TRUE(cpu->Extend(batch.params(), {&alone, 1}, nullptr, nullptr).ok());
        EXPECT_TRUE(BitsOf(batch.contiguous()[i]) == together[i]) << "sequence " << i;
      }
    }
  }
}

TEST(PagedRepeatabilityTest, ThreadsDoNotMatter) {
  PagedBatch batch(Params(DType::kFloat32), {CacheDType::kFloat32, 64}, MixedLengths(), 5);
  const std::vector<Bits> expected = BitsAfter(*MakeCpuPagedBackend(1), batch);
  for (const int threads : {2, 5}) EXPECT_TRUE(BitsAfter(*MakeCpuPagedBackend(threads), batch) == expected) << threads;
}

TEST(PagedRepeatabilityTest, PagesDoNotMatter) {
  const auto cpu = MakeCpuPagedBackend(1);
  const auto run = [&](int64_t page_tokens, PageLayout layout) {
    PagedBatch batch(Params(DType::kFloat16), {CacheDType::kFloat16, page_tokens, layout}, MixedLengths(), 6);
    return BitsAfter(*cpu, batch);
  };
  const std::vector<Bits> expected = run(64, PageLayout::kTokensOuter);
  EXPECT_TRUE(run(64, PageLayout::kHeadsOuter) == expected);
  EXPECT_TRUE(run(1, PageLayout::kTokensOuter) == expected);
  EXPECT_TRUE(run(16, PageLayout::kPadded) == expected);
  EXPECT_TRUE(run(512, PageLayout::kTokensOuter) == expected);
}

TEST(PagedRepeatabilityTest, HowRowsCameIntoThePagesDoesNotMatter) {
  const auto cpu = MakeCpuPagedBackend(2);
  PagedBatch batch(Params(DType::kBFloat16), {CacheDType::kBFloat16, 16}, std::vector<PagedLengths>{{1, 300, 300}}, 9);
  const std::vector<Bits> at_once = BitsAfter(*cpu, batch);
  batch.contiguous().PoisonOutputs();
  batch.ForgetAppended();
  PagedSequence step = batch.View(0);
  const int64_t row = step.k_strides.token * SizeOf(DType::kBFloat16);
  for (int64_t token = 0; token < 300; ++token) {
    step.kv_len = token + 1;
    step.append_len = 1;
    ASSERT_TRUE(cpu->Extend(batch.params(), {&step, 1}, nullptr, nullptr).ok());
    step.k = static_cast<const std::byte*>(step.k) + row;
    step.v = static_cast<const std::byte*>(step.v) + row;
  }
  EXPECT_TRUE(batch.PagesAreAsExpected());
  EXPECT_TRUE(BitsOf(batch.contiguous()[0]) == at_once[0]);
}

TEST(PagedRepeatabilityTest, RowsThatAreNotSeenDoNotReach) {
  // The last key is NaN or infinite: of a chunk, only the last row sees it. Few rows, and many.
  const auto cpu = MakeCpuPagedBackend(2);
  for (const int64_t rows : {int64_t{2}, int64_t{3}, int64_t{5}, int64_t{40}}) {
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      for (const bool in_values : {false, true}) {
        PagedBatch batch(Params(DType::kFloat32), {CacheDType::kFloat32, 16}, std::vector<PagedLengths>{{rows, 300, 0}},
                         3);
        const auto rows_but_the_last = [&] {
          (void)BitsAfter(*cpu, batch);
          std::vector<float> values;
          for (int64_t token = 0; token < rows - 1; ++token) {
            for (int64_t head = 0; head < 6; ++head) {
              for (int64_t c = 0; c < 72; ++c) values.push_back(batch.contiguous()[0].o.Get(token, head, c));
              values.push_back(batch.contiguous()[0].lse.Get(token, head, 0));
            }
          }
          return values;
        };
        const std::vector<float> expected = rows_but_the_last();
        for (int64_t head = 0; head < 2; ++head) {
          in_values ? batch.SetValueRow(0, 299, head, value) : batch.SetKeyRow(0, 299, head, value);
        }
        EXPECT_EQ(rows_but_the_last(), expected);
        EXPECT_FALSE(std::isfinite(batch.contiguous()[0].o.Get(rows - 1, 0, 0)));
      }
    }
  }
}

TEST(PagedRepeatabilityTest, SequencesMaySharePages) {
  const auto cpu = MakeCpuPagedBackend(2);
  PagedBatch batch(Params(DType::kFloat32), {CacheDType::kFloat32, 16},
                   std::vector<PagedLengths>{{1, 200, 0}, {1, 200, 0}}, 2);
  const std::vector<Bits> expected = BitsAfter(*cpu, batch);
  std::vector<PagedSequence> views = batch.Views();
  views[1].pages = views[0].pages;
  views[1].q = views[0].q;
  batch.contiguous().PoisonOutputs();
  ASSERT_TRUE(cpu->Extend(batch.params(), views, nullptr, nullptr).ok());
  EXPECT_TRUE(BitsOf(batch.contiguous()[0]) == expected[0]);
  EXPECT_TRUE(BitsOf(batch.contiguous()[1]) == expected[0]);
}

TEST(PagedRepeatabilityTest, PagesPast32Bits) {
  // Pages lie 2^29 elements apart, in memory of which only the rows are ever touched.
  constexpr int64_t kStride = int64_t{1} << 29;
  constexpr int32_t kPages = 16;
  constexpr size_t kBytes = kPages * kStride * sizeof(float);
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no address space for " << kBytes << " bytes";
  const auto cpu = MakeCpuPagedBackend(1);
  for (const int64_t rows : {int64_t{1}, int64_t{20}}) {
    PagedBatch batch(Params(DType::kFloat32), {CacheDType::kFloat32, 16}, std::vector<PagedLengths>{{rows, 40, 40}}, 8);
    const std::vector<Bits> expected = BitsAfter(*cpu, batch);
    batch.contiguous().PoisonOutputs();
    const int32_t pages[] = {kPages - 1, 0, 9};
    PagedSequence far = batch.View(0);
    far.pages = pages;
    far.layer.k_pages = memory;
    far.layer.v_pages = static_cast<float*>(memory) + kStride / 2;
    PagedParams params = batch.params();
    params.page_stride = kStride;
    ASSERT_TRUE(cpu->Extend(params, {&far, 1}, nullptr, nullptr).ok());
    EXPECT_TRUE(BitsOf(batch.contiguous()[0]) == expected[0]);
  }
  munmap(memory, kBytes);
}

TEST(PagedRepeatabilityTest, ConcurrentCallsDoNotMatter) {
  constexpr int kCallers = 3;
  const auto cpu = MakeCpuPagedBackend(2);
  std::vector<std::unique_ptr<PagedBatch>> batches;
  std::vector<std::vector<Bits>> expected;
  for (int i = 0; i < kCallers; ++i) {
    batches.push_back(
        std::make_unique<PagedBatch>(Params(DType::kFloat32), PageShape{CacheDType::kFloat32, 16}, MixedLengths(), i));
    expected.push_back(BitsAfter(*cpu, *batches[i]));
  }
  std::vector<int> wrong(kCallers);
  std::vector<std::thread> callers;
  callers.reserve(kCallers);
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] {
      for (int repeat = 0; repeat < 5; ++repeat) wrong[i] += BitsAfter(*cpu, *batches[i]) != expected[i];
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (int i = 0; i < kCallers; ++i) EXPECT_EQ(wrong[i], 0) << "caller " << i;
}

}  // namespace
}  // namespace tessera
