#include "server/device/cuda/cuda_device.h"

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/device/cuda/pinned_region.h"
#include "server/device/cuda/testing/fake_cuda_calls.h"
#include "server/memory/staging_pool.h"

namespace tessera {
namespace {

constexpr size_t kStagingBytes = 1 << 20;
constexpr int64_t kDeviceBytes = 100 << 10;
constexpr absl::Duration kKernelTime = absl::Milliseconds(5);

// A kernel that writes each byte of q, plus one, to o.
class FakeKernel final : public cuda::GpuBackend {
 public:
  explicit FakeKernel(FakeCudaCalls* calls) : calls_(calls) {}

  absl::string_view name() const override { return "sm90a"; }
  absl::Status Forward(const AttentionParams& params, absl::Span<const SequenceView> sequences, StreamHandle stream,
                       ForwardStats* stats) override {
    if (!error.ok()) return error;
    const std::vector<SequenceView> views(sequences.begin(), sequences.end());
    {
      absl::MutexLock lock(&mutex_);
      launches_.push_back(views);
    }
    const int64_t token_bytes = params.q_heads * params.head_dim * SizeOf(params.dtype);
    calls_->Launch(stream, kKernelTime, [this, token_bytes, views] {
      if (on_kernel) on_kernel();
      for (const SequenceView& sequence : views) {
        const auto* const q = static_cast<const uint8_t*>(sequence.q);
        auto* const o = static_cast<uint8_t*>(sequence.o);
        for (int64_t i = 0; i < sequence.q_len * token_bytes; ++i) o[i] = static_cast<uint8_t>(q[i] + 1);
      }
    });
    *stats = {.flops = 7};
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> PeakScratchBytes() const override { return 1; }
  absl::StatusOr<int64_t> ReservedScratchBytes() const override { return reserved; }

  std::vector<std::vector<SequenceView>> launches() {
    absl::MutexLock lock(&mutex_);
    return launches_;
  }

  // Set while nothing runs.
  absl::Status error;
  absl::StatusOr<int64_t> reserved = 2 << 20;
  std::function<void()> on_kernel;

 private:
  FakeCudaCalls* const calls_;
  absl::Mutex mutex_;
  std::vector<std::vector<SequenceView>> launches_ ABSL_GUARDED_BY(mutex_);
};

// Tokens of 16 bytes.
AttentionParams Params() {
  AttentionParams params;
  params.dtype = DType::kFloat16;
  params.head_dim = 8;
  return params;
}

// A call of one sequence in staging memory, q random-looking, o poisoned.
struct Call {
  Call(StagingPool& staging, int64_t tokens)
      : input(*staging.Allocate(static_cast<size_t>(tokens) * 16 * 3)),
        output(*staging.Allocate(static_cast<size_t>(tokens) * 16)) {
    for (size_t i = 0; i < input.size(); ++i) input.data()[i] = static_cast<std::byte>(i * 31 + input.size());
    std::fill_n(output.data(), output.size(), std::byte{0xCC});
    view.q_len = view.kv_len = tokens;
    view.q = input.data();
    view.k = input.data() + output.size();
    view.v = input.data() + 2 * output.size();
    view.o = output.data();
  }

  BatchItem Item() const { return {{input.data(), input.size()}, {output.data(), output.size()}, {&view, 1}}; }
  bool Right() const {
    for (size_t i = 0; i < output.size(); ++i) {
      if (static_cast<uint8_t>(output.data()[i]) != static_cast<uint8_t>(static_cast<uint8_t>(input.data()[i]) + 1)) {
        return false;
      }
    }
    return true;
  }

  StagingBuffer input;
  StagingBuffer output;
  SequenceView view;
};

class CudaDeviceTest : public testing::Test {
 protected:
  void Open(CudaDeviceOptions options) {
    staging_ = std::make_shared<StagingPool>(*PinnedRegion::Allocate(kStagingBytes, &calls_));
    auto kernel = std::make_unique<FakeKernel>(&calls_);
    kernel_ = kernel.get();
    options.memory_fraction = 0.5;
    device_ = *CudaDevice::Open(options, std::move(kernel), staging_, &calls_);
  }
  BatchOutcome Run(int slot, const std::vector<const Call*>& calls, const std::stop_token& stop = {}) {
    std::vector<BatchItem> items;
    items.reserve(calls.size());
    for (const Call* call : calls) items.push_back(call->Item());
    return device_->Run(slot, Params(), items, stop);
  }

  FakeCudaCalls calls_{2, kDeviceBytes};
  std::shared_ptr<StagingPool> staging_;
  std::unique_ptr<CudaDevice> device_;
  FakeKernel* kernel_ = nullptr;
};

TEST_F(CudaDeviceTest, SaysWhatItIsAndTakesItsMemoryAtOnce) {
  Open({.index = 3, .device = 1, .slots = 2});
  const DeviceInfo info = device_->info();
  EXPECT_EQ(info.index, 3);
  EXPECT_EQ(info.backend, "cuda");
  EXPECT_EQ(info.name, "fake GPU 1");
  EXPECT_EQ(info.kernel, "sm90a");
  EXPECT_EQ(info.memory_bytes, kDeviceBytes / 2);
  EXPECT_EQ(info.slots, 2);
  EXPECT_EQ(device_->memory_in_use(), 0);
  EXPECT_EQ(calls_.counts(),
            (FakeCudaCalls::Counts{.device_allocations = 1, .pinned_allocations = 1, .streams = 2, .events = 8}));
}

TEST_F(CudaDeviceTest, SaysWhatLaunchesTookAndNothingOnceItIsLost) {
  Open({.slots = 1});
  EXPECT_EQ(device_->launch_memory(), 2 << 20);
  kernel_->reserved = absl::InternalError("the device is broken");
  EXPECT_EQ(device_->launch_memory(), 0);
}

TEST_F(CudaDeviceTest, GivesEverythingBack) {
  Open({.device = 1, .slots = 3});
  device_.reset();
  staging_.reset();
  EXPECT_EQ(calls_.counts(), FakeCudaCalls::Counts());
}

TEST_F(CudaDeviceTest, BytesTravelToTheDeviceAndBack) {
  Open({.slots = 1});
  const Call first(*staging_, 5), second(*staging_, 40);
  const BatchOutcome outcome = Run(0, {&first, &second});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_TRUE(first.Right());
  EXPECT_TRUE(second.Right());
  EXPECT_EQ(outcome.stats.flops, 7);
  const auto launches = kernel_->launches();
  ASSERT_EQ(launches.size(), 1);
  EXPECT_NE(launches[0][0].q, first.view.q);
  EXPECT_NE(launches[0][1].o, second.view.o);
  // Inputs and outputs alternate in staging memory, so no two are neighbours.
  EXPECT_EQ(outcome.times.copy_in, 2 * FakeCudaCalls::kCopyTime);
  EXPECT_EQ(outcome.times.compute, kKernelTime);
  EXPECT_EQ(outcome.times.copy_out, 2 * FakeCudaCalls::kCopyTime);
  EXPECT_EQ(device_->memory_in_use(), 0);
}

TEST_F(CudaDeviceTest, BatchWithoutBytesCopiesNothing) {
  Open({.slots = 1});
  const Call empty(*staging_, 0);
  const BatchOutcome outcome = Run(0, {&empty});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(calls_.copies(), 0);
  EXPECT_EQ(outcome.times.copy_in, absl::ZeroDuration());
  EXPECT_EQ(outcome.times.copy_out, absl::ZeroDuration());
  EXPECT_EQ(outcome.times.compute, kKernelTime);
}

TEST_F(CudaDeviceTest, MemoryIsHeldWhileTheBatchRunsAndNoLonger) {
  Open({.slots = 1});
  const Call call(*staging_, 40);
  int64_t during = 0;
  kernel_->on_kernel = [&] { during = device_->memory_in_use(); };
  ASSERT_TRUE(Run(0, {&call}).status.ok());
  EXPECT_EQ(during, 2048 + 768);  // 1920 bytes of input and 640 of output, each rounded up
  EXPECT_EQ(device_->memory_in_use(), 0);
}

TEST_F(CudaDeviceTest, FullArenaConcernsTheBatchAlone) {
  Open({.slots = 2});
  const Call large(*staging_, 600), other(*staging_, 600);
  BatchOutcome refused;
  kernel_->on_kernel = [&] { refused = Run(1, {&other}); };
  EXPECT_TRUE(Run(0, {&large}).status.ok());
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(refused.sticky);
  EXPECT_TRUE(large.Right());
  kernel_->on_kernel = nullptr;
  EXPECT_TRUE(Run(1, {&other}).status.ok());
  EXPECT_TRUE(other.Right());
}

TEST_F(CudaDeviceTest, BatchThatNeverFitsIsInvalid) {
  Open({.slots = 1});
  const Call huge(*staging_, 1000);
  const BatchOutcome outcome = Run(0, {&huge});
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(outcome.sticky);
}

TEST_F(CudaDeviceTest, BatchOfCallsThatFitOneByOneIsExhausted) {
  Open({.slots = 1});
  const Call first(*staging_, 600), second(*staging_, 600);
  EXPECT_EQ(Run(0, {&first, &second}).status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Run(0, {&first}).status.ok());
  EXPECT_TRUE(Run(0, {&second}).status.ok());
}

TEST_F(CudaDeviceTest, BackendsErrorLeavesTheDeviceUsable) {
  Open({.slots = 1});
  const Call call(*staging_, 8);
  kernel_->error = absl::ResourceExhaustedError("scratch");
  const BatchOutcome outcome = Run(0, {&call});
  EXPECT_EQ(outcome.status, kernel_->error);
  EXPECT_FALSE(outcome.sticky);
  EXPECT_EQ(calls_.errors_forgotten(), 1);
  EXPECT_EQ(device_->memory_in_use(), 0);
  kernel_->error = absl::OkStatus();
  EXPECT_TRUE(Run(0, {&call}).status.ok());
  EXPECT_TRUE(call.Right());
}

// What has been enqueued before the error must be over before its memory goes to others. The fake's streams refuse to
// be destroyed with work left.
TEST_F(CudaDeviceTest, WorkBeforeAnErrorIsAwaited) {
  Open({.slots = 1});
  const Call first(*staging_, 8), second(*staging_, 8);
  calls_.FailNext("Copy", absl::ResourceExhaustedError("copy"));
  const BatchOutcome outcome = Run(0, {&first, &second});
  EXPECT_EQ(outcome.status, absl::ResourceExhaustedError("copy"));
  EXPECT_FALSE(outcome.sticky);
  EXPECT_EQ(calls_.copies(), 1);
  device_.reset();
}

TEST_F(CudaDeviceTest, BrokenDeviceIsSticky) {
  Open({.slots = 2});
  const Call call(*staging_, 8);
  calls_.BreakAtNextWait(0);
  for (const int slot : {0, 1}) {
    const BatchOutcome outcome = Run(slot, {&call});
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInternal);
    EXPECT_TRUE(outcome.sticky);
  }
  EXPECT_EQ(device_->memory_in_use(), 0);
}

TEST_F(CudaDeviceTest, BrokenDeviceLeavesAnotherAlone) {
  Open({.device = 0, .slots = 1});
  const auto other = *CudaDevice::Open({.index = 1, .device = 1, .slots = 1, .memory_fraction = 0.5},
                                       std::make_unique<FakeKernel>(&calls_), staging_, &calls_);
  const Call call(*staging_, 8);
  calls_.BreakAtNextWait(0);
  EXPECT_TRUE(Run(0, {&call}).sticky);
  const BatchItem item = call.Item();
  EXPECT_TRUE(other->Run(0, Params(), {&item, 1}, {}).status.ok());
  EXPECT_TRUE(call.Right());
}

TEST_F(CudaDeviceTest, UnwantedBatchIsNotLaunched) {
  Open({.slots = 1});
  const Call call(*staging_, 8);
  std::stop_source stop;
  stop.request_stop();
  const BatchOutcome outcome = Run(0, {&call}, stop.get_token());
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(outcome.sticky);
  EXPECT_TRUE(kernel_->launches().empty());
}

// Each kernel ends only when both are under way.
TEST_F(CudaDeviceTest, SlotsRunSideBySide) {
  Open({.slots = 2});
  const Call first(*staging_, 8), second(*staging_, 8);
  std::barrier under_way(2);
  kernel_->on_kernel = [&] { under_way.arrive_and_wait(); };
  BatchOutcome outcomes[2];
  std::thread other([&] { outcomes[1] = Run(1, {&second}); });
  outcomes[0] = Run(0, {&first});
  other.join();
  EXPECT_TRUE(outcomes[0].status.ok() && outcomes[1].status.ok());
  EXPECT_TRUE(first.Right() && second.Right());
}

TEST(CudaDevice, WhatCannotBeHadAtStartIsAnErrorAndLeavesNothingBehind) {
  FakeCudaCalls calls(1, kDeviceBytes);
  const absl::Status error = absl::ResourceExhaustedError("out of it");
  calls.FailNext("AllocatePinned", error);
  EXPECT_EQ(PinnedRegion::Allocate(kStagingBytes, &calls).status(), error);
  const auto staging = std::make_shared<StagingPool>(*PinnedRegion::Allocate(kStagingBytes, &calls));
  const FakeCudaCalls::Counts before = calls.counts();
  for (const char* call : {"AllocateDevice", "CreateStream", "CreateEvent"}) {
    calls.FailNext(call, error);
    EXPECT_EQ(CudaDevice::Open({.slots = 2}, std::make_unique<FakeKernel>(&calls), staging, &calls).status(), error);
    EXPECT_EQ(calls.counts(), before) << call;
  }
  EXPECT_EQ(CudaDevice::Open({.device = 1}, std::make_unique<FakeKernel>(&calls), staging, &calls).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tessera
