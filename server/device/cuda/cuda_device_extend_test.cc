#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/paged_backend.h"
#include "server/device/cuda/cuda_device.h"
#include "server/device/cuda/pinned_region.h"
#include "server/device/cuda/testing/fake_cuda_calls.h"
#include "server/device/cuda/testing/fake_gpu_kernels.h"
#include "server/device/cuda/testing/paged_steps.h"
#include "tests/random/seed.h"

namespace tessera {
namespace {

using Region = std::unique_ptr<StagingPool::Region>;

constexpr size_t kStagingBytes = 1 << 20;
constexpr int64_t kDeviceBytes = 400 << 10;  // of which half is the arena
constexpr int kPages = 32;
constexpr size_t kPagesBytes = kPages * TestPages::kPageBytes;

class CudaDeviceExtendTest : public testing::Test {
 protected:
  CudaDeviceExtendTest() { Open(/*slots=*/2); }

  void Open(int slots, size_t table_bytes = 1024) {
    auto kernel = std::make_unique<FakePagedKernel>(&calls_);
    kernel_ = kernel.get();
    device_ = *CudaDevice::Open({.slots = slots, .memory_fraction = 0.5, .table_bytes = table_bytes},
                                std::make_unique<NoGpuKernel>(), staging_, &calls_, std::move(kernel));
  }
  // A call of one sequence that appends to and reads one page.
  PagedStep Simple(const Region& pages, int32_t page, uint32_t seed = 1) {
    return PagedStep({.entries = {{.pages = {page}, .kv_len = 1, .append_len = 1, .q_len = 1}}, .seed = seed},
                     pages->data(), *staging_);
  }
  BatchOutcome Extend(int slot, const std::vector<const PagedStep*>& steps, const std::stop_token& stop = {}) {
    std::vector<ExtendItem> items;
    for (const PagedStep* step : steps) items.push_back(step->Item());
    return device_->Extend(slot, TestPages::Params(), items, stop);
  }
  // What the call comes to on other pages, one thing after the other.
  std::vector<float> Expected(const TestCall& call, std::byte* pages) {
    const PagedStep step(call, pages, *staging_);
    const ExtendItem item = step.Item();
    for (const MemoryFill& fill : item.fills) std::memset(fill.at, 0, fill.bytes);
    for (const MemoryCopy& copy : item.copies) std::memcpy(copy.to, copy.from, copy.bytes);
    EXPECT_TRUE(MakeCpuPagedBackend(1)->Extend(TestPages::Params(), item.sequences, /*stream=*/{}, nullptr).ok());
    return step.Output();
  }

  FakeCudaCalls calls_{1, kDeviceBytes};
  std::shared_ptr<StagingPool> staging_ =
      std::make_shared<StagingPool>(*PinnedRegion::Allocate(kStagingBytes, &calls_));
  std::unique_ptr<CudaDevice> device_;
  FakePagedKernel* kernel_ = nullptr;
};

TEST_F(CudaDeviceExtendTest, PagesAreZeroAndAccountedFor) {
  const FakeCudaCalls::Counts before = calls_.counts();
  {
    const Region pages = *device_->TakePages(kPagesBytes + 8);
    EXPECT_EQ(pages->size(), kPagesBytes + 8);
    EXPECT_TRUE(
        std::all_of(pages->data(), pages->data() + pages->size(), [](std::byte b) { return b == std::byte{}; }));
    EXPECT_EQ(device_->memory_in_use(), kPagesBytes + 256);
    EXPECT_EQ(calls_.counts(), before);
  }
  EXPECT_EQ(device_->memory_in_use(), 0);
}

TEST_F(CudaDeviceExtendTest, PagesThatAreNotToBeHadAreExhaustion) {
  EXPECT_EQ(device_->TakePages(kDeviceBytes).status().code(), absl::StatusCode::kResourceExhausted);
  const Region most = *device_->TakePages(kDeviceBytes / 2 - 512);
  EXPECT_EQ(device_->TakePages(1024).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(CudaDeviceExtendTest, PagesThatCannotBeClearedAreGivenBack) {
  const FakeCudaCalls::Counts before = calls_.counts();
  for (const char* call : {"CreateStream", "CreateEvent", "Move"}) {
    calls_.FailNext(call, absl::ResourceExhaustedError(call));
    EXPECT_EQ(device_->TakePages(kPagesBytes).status(), absl::ResourceExhaustedError(call));
    EXPECT_EQ(device_->memory_in_use(), 0);
    EXPECT_EQ(calls_.counts(), before);
  }
}

TEST_F(CudaDeviceExtendTest, DeviceWithoutPagedKernelsKeepsNoPages) {
  const auto other =
      *CudaDevice::Open({.slots = 1, .memory_fraction = 0.1}, std::make_unique<NoGpuKernel>(), staging_, &calls_);
  EXPECT_EQ(other->TakePages(64).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(other->Extend(0, TestPages::Params(), {}, {}).status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(other->launch_memory(), NoGpuKernel::kReservedBytes);
  EXPECT_EQ(device_->launch_memory(), NoGpuKernel::kReservedBytes + FakePagedKernel::kReservedBytes);
}

TEST_F(CudaDeviceExtendTest, CallThatFitsOnlyWithoutThePagesIsInvalid) {
  const Region pages = *device_->TakePages(kDeviceBytes / 2 - 4096);
  const PagedStep step({.entries = {{.pages = {0}, .kv_len = 1, .append_len = 1, .q_len = 20}}}, pages->data(),
                       *staging_);
  const BatchOutcome outcome = Extend(0, {&step});
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(outcome.sticky);
}

// Sequences of random lengths, appended to by one row or several, read alone, forked and cleared, as a cache would.
TEST_F(CudaDeviceExtendTest, StepsComeToWhatTheyDoOneByOne) {
  std::mt19937_64 random(RandomSeed());
  const Region pages = *device_->TakePages(kPagesBytes);
  std::vector<std::byte> expected_pages(kPagesBytes);
  struct Sequence {
    std::vector<int32_t> table;
    int64_t length = 0;
  };
  for (int round = 0; round < 20; ++round) {
    std::vector<int32_t> free;
    for (int32_t page = 0; page < kPages; ++page) free.push_back(page);
    std::shuffle(free.begin(), free.end(), random);
    const auto take = [&free] {
      const int32_t page = free.back();
      free.pop_back();
      return page;
    };
    std::vector<Sequence> sequences(1 + random() % 4);
    for (int batch = 0; batch < 6; ++batch) {
      std::vector<TestCall> calls(1 + random() % sequences.size());
      for (size_t i = 0; i < sequences.size(); ++i) {
        Sequence& sequence = sequences[i];
        TestCall& call = calls[i % calls.size()];
        call.seed = static_cast<uint32_t>(random());
        const int64_t append = static_cast<int64_t>(random() % 6);
        if (sequence.length % TestPages::kTokens != 0 && random() % 3 == 0 && append > 0) {
          // As if another shared the last page.
          call.copies.push_back({sequence.table.back(), take()});
          sequence.table.back() = call.copies.back().to;
          call.fills.push_back(sequence.table.back());
        }
        sequence.length += append;
        while (static_cast<int64_t>(sequence.table.size()) * TestPages::kTokens < sequence.length) {
          sequence.table.push_back(take());
          call.fills.push_back(sequence.table.back());
        }
        call.entries.push_back({.pages = sequence.table,
                                .kv_len = sequence.length,
                                .append_len = append,
                                .q_len = static_cast<int64_t>(random() % 3)});
        if (free.size() < 4) sequence = {};
      }
      std::vector<std::unique_ptr<PagedStep>> steps;
      std::vector<const PagedStep*> items;
      std::vector<std::vector<float>> expected;
      for (const TestCall& call : calls) {
        expected.push_back(Expected(call, expected_pages.data()));
        steps.push_back(std::make_unique<PagedStep>(call, pages->data(), *staging_));
        items.push_back(steps.back().get());
      }
      const BatchOutcome outcome = Extend(0, items);
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      for (size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(steps[i]->Output(), expected[i]) << round << " " << batch;
      ASSERT_TRUE(std::equal(pages->data(), pages->data() + kPagesBytes, expected_pages.data()))
          << round << " " << batch;
      if (free.size() < 12) break;
    }
  }
  EXPECT_EQ(device_->memory_in_use(), kPagesBytes);
  EXPECT_EQ(staging_->in_use(), 0);
}

TEST_F(CudaDeviceExtendTest, OneLaunchCopiesInAndOneCopiesOut) {
  const Region pages = *device_->TakePages(kPagesBytes);
  const PagedStep first = Simple(pages, 0), second = Simple(pages, 1), third = Simple(pages, 2);
  const int before = calls_.moves();
  const BatchOutcome outcome = Extend(0, {&first, &second, &third});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(calls_.moves() - before, 2);
  EXPECT_EQ(calls_.copies(), 0);
  EXPECT_EQ(kernel_->launches(), 1);
  EXPECT_EQ(outcome.times.copy_in, FakeCudaCalls::kMoveTime);
  EXPECT_EQ(outcome.times.compute, FakePagedKernel::kTime);
  EXPECT_EQ(outcome.times.copy_out, FakeCudaCalls::kMoveTime);
  EXPECT_EQ(outcome.stats.flops, FakePagedKernel::kFlops);
}

TEST_F(CudaDeviceExtendTest, MemoryIsHeldWhileTheStepsRunAndNoLonger) {
  const Region pages = *device_->TakePages(kPagesBytes);
  const PagedStep step = Simple(pages, 0);
  const size_t staged = staging_->in_use();
  int64_t during = 0;
  kernel_->on_kernel = [&] {
    during = device_->memory_in_use();
    EXPECT_EQ(staging_->in_use(), staged);
  };
  ASSERT_TRUE(Extend(0, {&step}).status.ok());
  EXPECT_EQ(during, kPagesBytes + 3 * 256);  // q, k, v; the table; o, LSE
  EXPECT_EQ(device_->memory_in_use(), kPagesBytes);
  EXPECT_EQ(staging_->in_use(), staged);
}

TEST_F(CudaDeviceExtendTest, PayloadsOfOthersLeaveStepsTheirTables) {
  const Region pages = *device_->TakePages(kPagesBytes);
  const PagedStep step = Simple(pages, 0);
  const StagingBuffer rest = *staging_->Allocate(staging_->capacity() - staging_->in_use());
  const int pinned = calls_.counts().pinned_allocations;
  const BatchOutcome outcome = Extend(0, {&step});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(calls_.counts().pinned_allocations, pinned);
}

TEST_F(CudaDeviceExtendTest, TablesThatNeedMoreMemoryThanAnyBeforeTakeIt) {
  Open(/*slots=*/1, /*table_bytes=*/64);
  const Region pages = *device_->TakePages(kPagesBytes);
  std::vector<std::byte> expected_pages(kPagesBytes);
  const int pinned = calls_.counts().pinned_allocations;
  // The same page again and again, as no cache would have it: 16 numbers fit, 17 do not.
  for (const int64_t count : {16, 17, 32, 100}) {
    const TestCall call = {.entries = {{.pages = std::vector<int32_t>(static_cast<size_t>(count), 3),
                                        .kv_len = count * TestPages::kTokens,
                                        .append_len = 1,
                                        .q_len = 2}},
                           .seed = static_cast<uint32_t>(count)};
    const std::vector<float> expected = Expected(call, expected_pages.data());
    const PagedStep step(call, pages->data(), *staging_);
    if (count == 17) {
      calls_.FailNext("AllocatePinned", absl::ResourceExhaustedError("no more"));
      const BatchOutcome refused = Extend(0, {&step});
      EXPECT_EQ(refused.status, absl::ResourceExhaustedError("no more"));
      EXPECT_FALSE(refused.sticky);
      EXPECT_EQ(calls_.errors_forgotten(), 1);
    }
    const BatchOutcome outcome = Extend(0, {&step});
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(step.Output(), expected) << count;
    EXPECT_EQ(calls_.counts().pinned_allocations, pinned);
    EXPECT_EQ(device_->pinned_launch_memory(), count == 16 ? 64 : count <= 32 ? 128 : 400);
  }
}

TEST_F(CudaDeviceExtendTest, ErrorsAreForgottenAndWhatWentBeforeIsAwaited) {
  const Region pages = *device_->TakePages(kPagesBytes);
  const PagedStep step = Simple(pages, 0);
  kernel_->error = absl::ResourceExhaustedError("scratch");
  BatchOutcome outcome = Extend(0, {&step});
  EXPECT_EQ(outcome.status, kernel_->error);
  EXPECT_FALSE(outcome.sticky);
  kernel_->error = absl::OkStatus();
  calls_.FailNext("Move", absl::ResourceExhaustedError("move"));
  outcome = Extend(0, {&step});
  EXPECT_EQ(outcome.status, absl::ResourceExhaustedError("move"));
  EXPECT_FALSE(outcome.sticky);
  EXPECT_EQ(calls_.errors_forgotten(), 2);
  EXPECT_TRUE(Extend(0, {&step}).status.ok());
}

TEST_F(CudaDeviceExtendTest, BrokenDeviceIsSticky) {
  const Region pages = *device_->TakePages(kPagesBytes);
  const PagedStep step = Simple(pages, 0);
  calls_.BreakAtNextWait(0);
  for (const int slot : {0, 1}) {
    const BatchOutcome outcome = Extend(slot, {&step});
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInternal);
    EXPECT_TRUE(outcome.sticky);
  }
}

TEST_F(CudaDeviceExtendTest, UnwantedStepsAreNotLaunched) {
  const Region pages = *device_->TakePages(kPagesBytes);
  const PagedStep step = Simple(pages, 0);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(Extend(0, {&step}, stop.get_token()).status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(kernel_->launches(), 0);
}

// Each kernel ends only when both are under way.
TEST_F(CudaDeviceExtendTest, SlotsRunSideBySide) {
  const Region pages = *device_->TakePages(kPagesBytes);
  const PagedStep first = Simple(pages, 0), second = Simple(pages, 1);
  std::barrier under_way(2);
  kernel_->on_kernel = [&] { under_way.arrive_and_wait(); };
  BatchOutcome outcomes[2];
  std::thread other([&] { outcomes[1] = Extend(1, {&second}); });
  outcomes[0] = Extend(0, {&first});
  other.join();
  EXPECT_TRUE(outcomes[0].status.ok() && outcomes[1].status.ok());
  EXPECT_EQ(first.Output(), second.Output());
}

TEST_F(CudaDeviceExtendTest, StepWithoutRowsOrPagesMovesNothing) {
  const PagedStep step({.entries = {{}}}, nullptr, *staging_);
  const int before = calls_.moves();
  const BatchOutcome outcome = Extend(0, {&step});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(calls_.moves(), before);
  EXPECT_EQ(outcome.times.copy_in, absl::ZeroDuration());
}

}  // namespace
}  // namespace tessera
