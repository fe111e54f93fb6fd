// The same sequence gives the same bits: on every call, whoever shares the batch, however many threads there are, on
// whichever thread, in whichever layout.
#include <cstddef>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/testing/random_batch.h"
#include "tests/random/seed.h"

namespace tessera {
namespace {

struct Bits {
  std::vector<std::byte> o, lse;
  friend bool operator==(const Bits&, const Bits&) = default;
};

Bits BitsOf(const TestSequence& sequence) { return {sequence.o.Bytes(), sequence.lse.Bytes()}; }

AttentionParams Params(DType dtype, Mask mask) {
  return {.dtype = dtype, .q_heads = 6, .kv_heads = 2, .head_dim = 72, .scale = 0.118f, .mask = mask};
}

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};

TEST(ForwardRepeatabilityTest, RepeatsAreBitwiseEqual) {
  const auto cpu = MakeCpuBackend(2);
  for (DType dtype : kDTypes) {
    RandomBatch batch(Params(dtype, Mask::Causal()), std::vector<SequenceLengths>{{150, 333}}, 1);
    ASSERT_TRUE(cpu->Forward(batch.params(), batch.Views(), nullptr, nullptr).ok());
    const Bits first = BitsOf(batch[0]);
    for (int repeat = 0; repeat < 5; ++repeat) {
      batch.PoisonOutputs();
      ASSERT_TRUE(cpu->Forward(batch.params(), batch.Views(), nullptr, nullptr).ok());
      EXPECT_TRUE(BitsOf(batch[0]) == first);
    }
  }
}

TEST(ForwardRepeatabilityTest, BatchmatesDoNotMatter) {
  std::mt19937_64 random(RandomSeed());
  const auto cpu = MakeCpuBackend(2);
  for (int trial = 0; trial < 12; ++trial) {
    const AttentionParams params = Params(kDTypes[trial % 3], trial % 2 == 0 ? Mask::Causal() : Mask::Window(90, 10));
    std::vector<SequenceLengths> lengths;
    for (int i = 0; i < 6; ++i) {
      lengths.push_back({static_cast<int64_t>(random() % 220), static_cast<int64_t>(random() % 400)});
    }
    RandomBatch batch(params, lengths, random());
    ASSERT_TRUE(cpu->Forward(params, batch.Views(), nullptr, nullptr).ok());
    std::vector<Bits> together;
    for (size_t i = 0; i < batch.size(); ++i) together.push_back(BitsOf(batch[i]));
    batch.PoisonOutputs();
    for (size_t i = 0; i < batch.size(); ++i) {
      const SequenceView alone = batch.View(i);
      ASSERT_TRUE(cpu->Forward(params, {&alone, 1}, nullptr, nullptr).ok());
      EXPECT_TRUE(BitsOf(batch[i]) == together[i]) << "sequence " << i;
    }
  }
}

TEST(ForwardRepeatabilityTest, ThreadsDoNotMatter) {
  RandomBatch batch(Params(DType::kFloat32, Mask::Causal()), std::vector<SequenceLengths>{{400, 450}, {3, 900}}, 5);
  std::vector<Bits> expected;
  for (int threads : {1, 2, 5}) {
    batch.PoisonOutputs();
    ASSERT_TRUE(MakeCpuBackend(threads)->Forward(batch.params(), batch.Views(), nullptr, nullptr).ok());
    const std::vector<Bits> bits = {BitsOf(batch[0]), BitsOf(batch[1])};
    if (expected.empty()) expected = bits;
    EXPECT_TRUE(bits == expected) << threads << " threads";
  }
}

TEST(ForwardRepeatabilityTest, LayoutDoesNotMatter) {
  const auto cpu = MakeCpuBackend(1);
  std::vector<Bits> bits;
  for (TensorLayout layout : {TensorLayout::kPacked, TensorLayout::kPadded, TensorLayout::kHeadsOuter}) {
    RandomBatch batch(Params(DType::kBFloat16, Mask::Causal()), std::vector<SequenceLengths>{{70, 130}}, 6, layout);
    ASSERT_TRUE(cpu->Forward(batch.params(), batch.Views(), nullptr, nullptr).ok());
    bits.push_back(BitsOf(batch[0]));
  }
  EXPECT_TRUE(bits[1] == bits[0]);
  EXPECT_TRUE(bits[2] == bits[0]);
}

TEST(ForwardRepeatabilityTest, ConcurrentCallsDoNotMatter) {
  constexpr int kCallers = 4;
  const auto cpu = MakeCpuBackend(2);
  std::vector<std::unique_ptr<RandomBatch>> batches;
  std::vector<Bits> expected;
  for (int i = 0; i < kCallers; ++i) {
    const std::vector<SequenceLengths> lengths = {{60 + 40 * i, 200}};
    batches.push_back(std::make_unique<RandomBatch>(Params(DType::kFloat32, Mask::Causal()), lengths, i));
    ASSERT_TRUE(cpu->Forward(batches[i]->params(), batches[i]->Views(), nullptr, nullptr).ok());
    expected.push_back(BitsOf((*batches[i])[0]));
  }
  std::vector<int> wrong(kCallers);
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] {
      for (int repeat = 0; repeat < 10; ++repeat) {
        batches[i]->PoisonOutputs();
        const bool ok = cpu->Forward(batches[i]->params(), batches[i]->Views(), nullptr, nullptr).ok();
        if (!ok || !(BitsOf((*batches[i])[0]) == expected[i])) ++wrong[i];
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (int i = 0; i < kCallers; ++i) EXPECT_EQ(wrong[i], 0) << "caller " << i;
}

}  // namespace
}  // namespace tessera
