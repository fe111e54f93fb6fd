// Pages that go to the host's memory and come back, on GPUs that are not there.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/cuda/cuda_device.h"
#include "server/device/cuda/pinned_region.h"
#include "server/device/cuda/testing/fake_cuda_calls.h"
#include "server/device/cuda/testing/fake_gpu_kernels.h"
#include "server/device/cuda/testing/paged_steps.h"

namespace tessera {
namespace {

using Region = std::unique_ptr<StagingPool::Region>;

constexpr size_t kStagingBytes = 1 << 20;
constexpr int64_t kDeviceBytes = 400 << 10;
constexpr int32_t kPages = 8;
constexpr int32_t kHostPages = 6;
constexpr size_t kPagesBytes = kPages * TestPages::kPageBytes;
constexpr size_t kHostBytes = kHostPages * TestPages::kPageBytes;

class CudaHostPagesTest : public testing::Test {
 protected:
  BatchOutcome Run(const std::vector<TestCall>& calls, std::vector<std::vector<float>>* outputs = nullptr) {
    std::vector<std::unique_ptr<PagedStep>> steps;
    std::vector<ExtendItem> items;
    for (const TestCall& call : calls) {
      steps.push_back(std::make_unique<PagedStep>(call, pages_->data(), *staging_, host_pages_->data()));
      items.push_back(steps.back()->Item());
    }
    const BatchOutcome outcome = device_->Extend(0, TestPages::Params(), items, {});
    if (outputs == nullptr) return outcome;
    for (const auto& step : steps) outputs->push_back(step->Output());
    return outcome;
  }
  std::vector<std::byte> Page(const Region& of, int32_t page) {
    const std::byte* const begin = of->data() + static_cast<size_t>(page) * TestPages::kPageBytes;
    return {begin, begin + TestPages::kPageBytes};
  }

  FakeCudaCalls calls_{1, kDeviceBytes};
  const std::shared_ptr<StagingPool> staging_ =
      std::make_shared<StagingPool>(*PinnedRegion::Allocate(kStagingBytes, &calls_));
  const std::unique_ptr<CudaDevice> device_ =
      *CudaDevice::Open({.slots = 1, .memory_fraction = 0.5}, std::make_unique<NoGpuKernel>(), staging_, &calls_,
                        std::make_unique<FakePagedKernel>(&calls_));
  Region pages_ = *device_->TakePages(kPagesBytes);
  Region host_pages_ = *device_->TakeHostPages(kHostBytes);
};

// A call that only moves pages.
TestCall Leaving(std::vector<TestPageCopy> to_host) { return {.entries = {}, .to_host = std::move(to_host)}; }

TEST_F(CudaHostPagesTest, AreZeroAndPinned) {
  const FakeCudaCalls::Counts before = calls_.counts();
  const int64_t in_use = device_->memory_in_use();
  {
    const Region more = *device_->TakeHostPages(kHostBytes + 8);
    EXPECT_EQ(more->size(), kHostBytes + 8);
    EXPECT_TRUE(std::all_of(more->data(), more->data() + more->size(), [](std::byte b) { return b == std::byte{}; }));
    FakeCudaCalls::Counts during = before;
    ++during.pinned_allocations;
    EXPECT_EQ(calls_.counts(), during);
    EXPECT_EQ(device_->memory_in_use(), in_use);
  }
  EXPECT_EQ(calls_.counts(), before);
}

TEST_F(CudaHostPagesTest, ThoseThatAreNotToBeHadAreExhaustionAndLeaveNothing) {
  const FakeCudaCalls::Counts before = calls_.counts();
  for (const char* call : {"AllocatePinned", "CreateStream", "CreateEvent", "Move"}) {
    calls_.FailNext(call, absl::ResourceExhaustedError(call));
    EXPECT_EQ(device_->TakeHostPages(kHostBytes).status(), absl::ResourceExhaustedError(call));
    EXPECT_EQ(calls_.counts(), before);
  }
}

TEST_F(CudaHostPagesTest, DeviceWithoutPagedKernelsHasNone) {
  const auto other =
      *CudaDevice::Open({.slots = 1, .memory_fraction = 0.1}, std::make_unique<NoGpuKernel>(), staging_, &calls_);
  EXPECT_EQ(other->TakeHostPages(64).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(CudaHostPagesTest, PagesComeBackAsTheyWentAndAreReadAtOnce) {
  // Six tokens on pages 2 and 5.
  std::vector<std::vector<float>> outputs;
  const TestEntry six = {.pages = {2, 5}, .kv_len = 6, .append_len = 6, .q_len = 2};
  ASSERT_TRUE(Run({{.entries = {six}, .seed = 1}}).status.ok());
  const std::vector<std::byte> first = Page(pages_, 2), second = Page(pages_, 5);
  ASSERT_TRUE(Run({{.entries = {{.pages = {2, 5}, .kv_len = 6, .q_len = 3}}, .seed = 2}}, &outputs).status.ok());

  const int moves = calls_.moves();
  BatchOutcome outcome = Run({Leaving({{.from = 2, .to = 4}, {.from = 5, .to = 0}})});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(calls_.copies(), 2);
  EXPECT_EQ(calls_.moves(), moves);
  EXPECT_EQ(outcome.times.copy_in, absl::ZeroDuration());
  EXPECT_EQ(outcome.times.copy_out, 2 * FakeCudaCalls::kCopyTime);
  EXPECT_EQ(Page(host_pages_, 4), first);
  EXPECT_EQ(Page(host_pages_, 0), second);

  // Others write what has become free; then the sequence comes back elsewhere, with a step that reads it.
  ASSERT_TRUE(Run({{.entries = {{.pages = {5, 2}, .kv_len = 8, .append_len = 8, .q_len = 1}}, .seed = 3}}).status.ok());
  outcome = Run({{.entries = {{.pages = {7, 1}, .kv_len = 6, .q_len = 3}},
                  .from_host = {{.from = 4, .to = 7}, {.from = 0, .to = 1}},
                  .seed = 2}},
                &outputs);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(calls_.copies(), 4);
  EXPECT_EQ(outcome.times.copy_in, 2 * FakeCudaCalls::kCopyTime + FakeCudaCalls::kMoveTime);
  EXPECT_EQ(outcome.times.copy_out, FakeCudaCalls::kMoveTime);
  EXPECT_EQ(Page(pages_, 7), first);
  EXPECT_EQ(Page(pages_, 1), second);
  EXPECT_EQ(outputs[1], outputs[0]);
}

TEST_F(CudaHostPagesTest, PagesAreClearedBeforeOthersAreMovedThere) {
  ASSERT_TRUE(Run({{.entries = {{.pages = {0}, .kv_len = 4, .append_len = 4}}, .seed = 1}}).status.ok());
  const std::vector<std::byte> page = Page(pages_, 0);
  TestCall leaving = Leaving({{.from = 0, .to = 3}});
  leaving.host_fills = {3, 2};
  ASSERT_TRUE(Run({leaving}).status.ok());
  EXPECT_EQ(Page(host_pages_, 3), page);
  ASSERT_TRUE(Run({{.entries = {}, .fills = {6}, .from_host = {{.from = 3, .to = 6}}}}).status.ok());
  EXPECT_EQ(Page(pages_, 6), page);
}

// Some leave, some come back, others append, all in one batch.
TEST_F(CudaHostPagesTest, MovesShareABatchWithSteps) {
  ASSERT_TRUE(Run({{.entries = {{.pages = {0, 1, 2}, .kv_len = 12, .append_len = 12}}, .seed = 1}}).status.ok());
  const std::vector<std::byte> one = Page(pages_, 1), two = Page(pages_, 2);
  ASSERT_TRUE(Run({Leaving({{.from = 1, .to = 1}})}).status.ok());
  std::vector<std::vector<float>> outputs;
  const TestEntry appends = {.pages = {5}, .kv_len = 3, .append_len = 3, .q_len = 3};
  ASSERT_TRUE(Run({{.entries = {appends}, .seed = 9},
                   Leaving({{.from = 2, .to = 5}}),
                   {.entries = {}, .from_host = {{.from = 1, .to = 3}}}},
                  &outputs)
                  .status.ok());
  EXPECT_EQ(Page(host_pages_, 5), two);
  EXPECT_EQ(Page(pages_, 3), one);
  ASSERT_TRUE(Run({{.entries = {appends}, .seed = 9}}, &outputs).status.ok());
  EXPECT_EQ(outputs[3], outputs[0]);
}

TEST_F(CudaHostPagesTest, MoveThatFailsConcernsItsBatchAlone) {
  calls_.FailNext("Copy", absl::ResourceExhaustedError("copy"));
  const BatchOutcome outcome = Run({Leaving({{.from = 1, .to = 1}})});
  EXPECT_EQ(outcome.status, absl::ResourceExhaustedError("copy"));
  EXPECT_FALSE(outcome.sticky);
  EXPECT_TRUE(Run({Leaving({{.from = 1, .to = 1}})}).status.ok());
}

}  // namespace
}  // namespace tessera
