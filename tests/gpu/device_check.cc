// Checks the GPU device on a GPU: batchmates change no bit, slots do not disturb one another, a full arena is
// no catastrophe, and a broken device is noticed. The last test breaks it.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "server/device/cuda/cuda_device.h"
#include "server/device/cuda/pinned_region.h"
#include "server/device/cuda/real_cuda_calls.h"
#include "tests/gpu/gpu_calls.h"
#include "tests/gpu/trap.h"
#include "tests/random/seed.h"

namespace tessera::testing {
namespace {

constexpr size_t kStagingBytes = size_t{1} << 30;

using Calls = std::vector<std::shared_ptr<AttendJob>>;

std::shared_ptr<StagingPool> Staging() {
  return std::make_shared<StagingPool>(*PinnedRegion::Allocate(kStagingBytes, GetRealCudaCalls()));
}

std::unique_ptr<CudaDevice> Open(const std::shared_ptr<StagingPool>& staging, CudaDeviceOptions options) {
  return *CudaDevice::Open(options, *cuda::CreateCudaBackend(options.device), staging, GetRealCudaCalls());
}

std::vector<std::vector<std::byte>> OutputsOf(const Calls& calls) {
  std::vector<std::vector<std::byte>> outputs;
  for (const auto& call : calls) {
    outputs.emplace_back(call->output().data(), call->output().data() + call->output().size());
  }
  return outputs;
}

TEST(GpuDeviceTest, NoBitDependsOnBatchmates) {
  std::mt19937_64 rng(RandomSeed());
  const auto staging = Staging();
  Calls calls;
  for (const uint32_t tokens : {1, 7, 16, 128, 333, 1024, 0, 2500}) calls.push_back(MakeGpuCall(*staging, tokens, rng));
  const auto device = Open(staging, {.slots = 1, .memory_fraction = 0.1});
  const BatchOutcome outcome = device->Run(0, GpuParams(), ItemsOf(calls), {});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_GT(device->launch_memory(), 0);
  EXPECT_GT(outcome.times.copy_in, absl::ZeroDuration());
  EXPECT_GT(outcome.times.compute, absl::ZeroDuration());
  EXPECT_GT(outcome.times.copy_out, absl::ZeroDuration());
  const std::vector<std::vector<std::byte>> expected = OutputsOf(calls);
  for (const auto& call : calls) {
    Poison({call});
    ASSERT_TRUE(device->Run(0, GpuParams(), ItemsOf({call}), {}).status.ok());
  }
  EXPECT_EQ(OutputsOf(calls), expected);
  EXPECT_EQ(device->memory_in_use(), 0);
  // A poisoned output is all ones, and so not a number.
  for (const auto& output : expected) {
    EXPECT_TRUE(output.empty() ||
                std::any_of(output.begin(), output.end(), [](std::byte b) { return b != std::byte{0xFF}; }));
  }
}

TEST(GpuDeviceTest, SlotsDoNotDisturbOneAnother) {
  constexpr int kSlots = 4;
  std::mt19937_64 rng(RandomSeed());
  const auto staging = Staging();
  const auto device = Open(staging, {.slots = kSlots, .memory_fraction = 0.1});
  std::vector<Calls> batches(kSlots);
  for (Calls& calls : batches) {
    for (const uint32_t tokens : {16, 700, 64, 1500}) calls.push_back(MakeGpuCall(*staging, tokens, rng));
  }
  std::vector<std::vector<std::vector<std::byte>>> expected;
  for (const Calls& calls : batches) {
    ASSERT_TRUE(device->Run(0, GpuParams(), ItemsOf(calls), {}).status.ok());
    expected.push_back(OutputsOf(calls));
    Poison(calls);
  }
  std::vector<std::thread> threads;
  for (int slot = 0; slot < kSlots; ++slot) {
    threads.emplace_back([&, slot] {
      const auto place = static_cast<size_t>(slot);
      for (int round = 0; round < 50; ++round) {
        Poison(batches[place]);
        EXPECT_TRUE(device->Run(slot, GpuParams(), ItemsOf(batches[place]), {}).status.ok());
        EXPECT_EQ(OutputsOf(batches[place]), expected[place]) << "slot " << slot << ", round " << round;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device->memory_in_use(), 0);
}

TEST(GpuDeviceTest, WhatDoesNotFitIsRefusedAndTheDeviceGoesOn) {
  std::mt19937_64 rng(RandomSeed());
  const auto staging = Staging();
  const auto device = Open(staging, {.slots = 1, .memory_fraction = 0.0005});
  const Calls small = {MakeGpuCall(*staging, 512, rng)}, huge = {MakeGpuCall(*staging, 8192, rng)};
  ASSERT_LT(device->info().memory_bytes, static_cast<int64_t>(huge[0]->input().size()));
  const BatchOutcome refused = device->Run(0, GpuParams(), ItemsOf(huge), {});
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(refused.sticky);
  EXPECT_TRUE(device->Run(0, GpuParams(), ItemsOf(small), {}).status.ok());
}

// Traps once it is told to.
class TrappingBackend final : public cuda::GpuBackend {
 public:
  explicit TrappingBackend(std::unique_ptr<cuda::GpuBackend> backend) : backend_(std::move(backend)) {}
  absl::string_view name() const override { return backend_->name(); }
  absl::Status Forward(const AttentionParams& params, absl::Span<const SequenceView> sequences, StreamHandle stream,
                       ForwardStats* stats) override {
    if (trap) {
      EXPECT_EQ(LaunchTrap(static_cast<cudaStream_t>(stream)), cudaSuccess);
    }
    return backend_->Forward(params, sequences, stream, stats);
  }
  absl::StatusOr<int64_t> PeakScratchBytes() const override { return backend_->PeakScratchBytes(); }
  absl::StatusOr<int64_t> ReservedScratchBytes() const override { return backend_->ReservedScratchBytes(); }

  bool trap = false;

 private:
  const std::unique_ptr<cuda::GpuBackend> backend_;
};

TEST(GpuDeviceTest, TrapIsSticky) {
  std::mt19937_64 rng(RandomSeed());
  const auto staging = Staging();
  auto owned = std::make_unique<TrappingBackend>(*cuda::CreateCudaBackend(0));
  TrappingBackend& backend = *owned;
  const auto device =
      *CudaDevice::Open({.slots = 2, .memory_fraction = 0.1}, std::move(owned), staging, GetRealCudaCalls());
  const Calls calls = {MakeGpuCall(*staging, 512, rng)};
  ASSERT_TRUE(device->Run(0, GpuParams(), ItemsOf(calls), {}).status.ok());
  backend.trap = true;
  const BatchOutcome trapped = device->Run(0, GpuParams(), ItemsOf(calls), {});
  EXPECT_TRUE(trapped.sticky) << trapped.status;
  backend.trap = false;
  const BatchOutcome later = device->Run(1, GpuParams(), ItemsOf(calls), {});
  EXPECT_TRUE(later.sticky) << later.status;
  EXPECT_EQ(device->memory_in_use(), 0);
}

}  // namespace
}  // namespace tessera::testing
