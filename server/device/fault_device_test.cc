#include "server/device/fault_device.h"

#include <thread>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "server/clock/fake_clock.h"

namespace tessera {
namespace {

// Counts its runs.
class CountingDevice final : public Device {
 public:
  explicit CountingDevice(int* runs) : runs_(runs) {}

  DeviceInfo info() const override {
    DeviceInfo info;
    info.name = "counting";
    return info;
  }
  StagingPool& staging() override { return staging_; }
  int64_t memory_in_use() const override { return 7; }
  BatchOutcome Run(int, const AttentionParams&, absl::Span<const BatchItem>, const std::stop_token& stop) override {
    ++*runs_;
    BatchOutcome outcome;
    outcome.stats.flops = 1;
    if (stop.stop_requested()) outcome.status = absl::CancelledError("stopped");
    return outcome;
  }

 private:
  int* const runs_;
  StagingPool staging_{*StagingPool::MapAnonymous(1 << 20)};
};

class FaultDeviceTest : public testing::Test {
 protected:
  std::unique_ptr<FaultDevice> Make(const char* script) {
    return std::make_unique<FaultDevice>(std::make_unique<CountingDevice>(&runs_), *ParseFaultScript(script), &clock_);
  }
  static BatchOutcome Run(FaultDevice* device) { return device->Run(0, AttentionParams(), {}, {}); }

  FakeClock clock_;
  int runs_ = 0;
};

TEST_F(FaultDeviceTest, WithoutAScriptItIsTheDeviceItWraps) {
  const auto device = Make("");
  EXPECT_EQ(device->info().name, "counting");
  EXPECT_EQ(device->memory_in_use(), 7);
  EXPECT_TRUE(device->staging().Allocate(100).ok());
  EXPECT_EQ(Run(device.get()).stats.flops, 1);
}

TEST_F(FaultDeviceTest, PassesTheRequestToStopOn) {
  const auto device = Make("");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(device->Run(0, AttentionParams(), {}, stop.get_token()).status.code(), absl::StatusCode::kCancelled);
}

TEST_F(FaultDeviceTest, StrikesTheNumberedAllocation) {
  const auto device = Make("stage@2=resource_exhausted");
  EXPECT_TRUE(device->staging().Allocate(100).ok());
  EXPECT_EQ(device->staging().Allocate(100).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(device->staging().Allocate(100).ok());
}

TEST_F(FaultDeviceTest, StrikesTheNumberedBatchAtItsPoint) {
  const auto device = Make("copy_in@1=internal;run@2=resource_exhausted;copy_out@3=aborted;run@5+=sticky");
  EXPECT_EQ(Run(device.get()).status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Run(device.get()).status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(runs_, 0) << "failed before the kernel";
  EXPECT_EQ(Run(device.get()).status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(runs_, 1) << "failed after it";
  EXPECT_TRUE(Run(device.get()).status.ok());
  for (int i = 0; i < 2; ++i) {
    const BatchOutcome lost = Run(device.get());
    EXPECT_TRUE(lost.sticky);
    EXPECT_FALSE(lost.status.ok());
  }
  EXPECT_EQ(runs_, 2);
}

TEST_F(FaultDeviceTest, HangsUntilReleased) {
  const auto device = Make("run@1=hang;run@2=hang");
  absl::Notification first_ran;
  std::thread first([&] {
    EXPECT_TRUE(Run(device.get()).status.ok());
    first_ran.Notify();
  });
  device->AwaitBatch(1);
  std::thread second([&] { EXPECT_TRUE(Run(device.get()).status.ok()); });
  device->AwaitBatch(2);
  EXPECT_FALSE(first_ran.HasBeenNotified());
  device->Release(1);
  first.join();
  device->ReleaseAll();
  second.join();
  EXPECT_EQ(runs_, 2);
}

TEST_F(FaultDeviceTest, DelaysByTheClock) {
  const auto device = Make("copy_in@1=delay:20ms");
  const absl::Time due = clock_.Now() + absl::Milliseconds(20);
  std::thread runner([&] { EXPECT_TRUE(Run(device.get()).status.ok()); });
  clock_.AwaitWaiter(due);
  clock_.Advance(absl::Milliseconds(20));
  runner.join();
  EXPECT_EQ(runs_, 1);
}

}  // namespace
}  // namespace tessera
