#include "kernels/cpu/cpu_backend.h"

#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/block_forward.h"
#include "kernels/cpu/forward_plan.h"
#include "kernels/cpu/scratch.h"
#include "kernels/testing/random_batch.h"

namespace tessera {
namespace {

TEST(CpuBackendTest, Name) { EXPECT_EQ(MakeCpuBackend(1)->name(), "cpu"); }

TEST(CpuBackendTest, StatsAreOverwritten) {
  const AttentionParams params{.q_heads = 4, .kv_heads = 2, .head_dim = 16, .mask = Mask::Causal()};
  RandomBatch batch(params, std::vector<SequenceLengths>{{300, 300}, {2, 70}}, 1);
  ForwardStats stats{.tiles_computed = 99, .tiles_skipped = 99, .flops = 99, .hbm_bytes = 99};
  ASSERT_TRUE(MakeCpuBackend(0)->Forward(params, batch.Views(), nullptr, &stats).ok());
  const ForwardStats expected = ForwardPlan(params, batch.Views()).stats();
  EXPECT_EQ(stats.tiles_computed, expected.tiles_computed);
  EXPECT_EQ(stats.tiles_skipped, expected.tiles_skipped);
  EXPECT_EQ(stats.flops, expected.flops);
  EXPECT_EQ(stats.hbm_bytes, expected.hbm_bytes);
  EXPECT_GT(stats.tiles_skipped, 0);
}

TEST(CpuBackendTest, RefusesWithNothingWritten) {
  AttentionParams params{.head_dim = 16};
  RandomBatch batch(params, std::vector<SequenceLengths>{{3, 3}, {3, 3}}, 1);
  std::vector<SequenceView> views = batch.Views();
  views[1].kv_len = -1;
  ForwardStats stats{.flops = 7};
  const auto cpu = MakeCpuBackend(1);
  EXPECT_EQ(cpu->Forward(params, views, nullptr, &stats).code(), absl::StatusCode::kInvalidArgument);
  params.head_dim = 20;
  EXPECT_EQ(cpu->Forward(params, batch.Views(), nullptr, &stats).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stats.flops, 7);
  for (float value : {batch[0].o.Get(0, 0, 0), batch[1].o.Get(2, 0, 15)}) EXPECT_NE(value, value) << "poison is NaN";
}

TEST(CpuBackendTest, LseIsOptional) {
  const AttentionParams params{.head_dim = 16};
  RandomBatch batch(params, std::vector<SequenceLengths>{{3, 3}}, 1);
  ASSERT_TRUE(MakeCpuBackend(1)->Forward(params, batch.Views(/*with_lse=*/false), nullptr, nullptr).ok());
  EXPECT_FALSE(batch[0].o.AnyElementIsPoison());
  EXPECT_NE(batch[0].lse.Get(0, 0, 0), batch[0].lse.Get(0, 0, 0)) << "poison is NaN";
}

std::stop_token Stopped() {
  std::stop_source stop;
  stop.request_stop();
  return stop.get_token();
}

TEST(CpuBackendTest, StoppedCallDoesNoMoreWork) {
  const AttentionParams params{.head_dim = 16};
  for (const int threads : {1, 3}) {
    RandomBatch batch(params, std::vector<SequenceLengths>{{2000, 2000}, {5, 5}}, 1);
    EXPECT_EQ(MakeCpuBackend(threads)->ForwardUntilStopped(params, batch.Views(), Stopped(), nullptr).code(),
              absl::StatusCode::kCancelled);
    for (const int64_t row : {0, 1000, 1999}) EXPECT_NE(batch[0].o.Get(row, 0, 0), batch[0].o.Get(row, 0, 0));
  }
}

TEST(CpuBackendTest, BlockIsLeftBetweenTiles) {
  const AttentionParams params{.head_dim = 16};
  RandomBatch batch(params, std::vector<SequenceLengths>{{3, 3}}, 1);
  const auto scratch = std::make_unique<Scratch>();
  ForwardBlock(params, batch.Views()[0], {.rows = 3}, *scratch, Stopped());
  EXPECT_NE(batch[0].o.Get(0, 0, 0), batch[0].o.Get(0, 0, 0)) << "poison is NaN";
  ForwardBlock(params, batch.Views()[0], {.rows = 3}, *scratch, std::stop_token());
  EXPECT_FALSE(batch[0].o.AnyElementIsPoison());
}

// A call of half a minute, stopped while it runs, beside one that is wanted.
TEST(CpuBackendTest, StopsInTheMiddleAndLeavesOtherCallsAlone) {
  const AttentionParams params{.head_dim = 8};
  RandomBatch long_batch(params, std::vector<SequenceLengths>{{131072, 131072}}, 1);
  RandomBatch wanted(params, std::vector<SequenceLengths>{{300, 300}}, 2);
  const auto cpu = MakeCpuBackend(2);
  std::stop_source stop;
  std::thread caller([&] {
    EXPECT_EQ(cpu->ForwardUntilStopped(params, long_batch.Views(), stop.get_token(), nullptr).code(),
              absl::StatusCode::kCancelled);
  });
  EXPECT_TRUE(cpu->Forward(params, wanted.Views(), nullptr, nullptr).ok());
  EXPECT_FALSE(wanted[0].o.AnyElementIsPoison());
  stop.request_stop();
  caller.join();
  EXPECT_NE(long_batch[0].o.Get(131071, 0, 0), long_batch[0].o.Get(131071, 0, 0)) << "stopped before the end";
}

}  // namespace
}  // namespace tessera
