// An engine on a device that copies q to o, with scripted faults and a clock that stands still.
#ifndef TESSERA_SERVER_ENGINE_ENGINE_TEST_FIXTURE_H_
#define TESSERA_SERVER_ENGINE_ENGINE_TEST_FIXTURE_H_

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/clock/fake_clock.h"
#include "server/device/fault_device.h"
#include "server/engine/attend_runner.h"
#include "server/engine/engine.h"
#include "server/request/attend_job.h"

namespace tessera {

// Writes each sequence's q to its o. A batch with a sequence of kEndless tokens runs until it is stopped.
class CopyingDevice final : public Device {
 public:
  static constexpr int64_t kEndless = 99;

  explicit CopyingDevice(int slots) : slots_(slots) {}

  DeviceInfo info() const override {
    DeviceInfo info;
    info.slots = slots_;
    return info;
  }
  StagingPool& staging() override { return staging_; }
  int64_t memory_in_use() const override { return 0; }
  BatchOutcome Run(int slot, const AttentionParams& params, absl::Span<const BatchItem> items,
                   const std::stop_token& stop) override {
    EXPECT_TRUE(slot >= 0 && slot < slots_);
    bool endless = false;
    for (const BatchItem& item : items) {
      for (const SequenceView& view : item.sequences) {
        std::memcpy(view.o, view.q, view.q_len * params.q_heads * params.head_dim * SizeOf(params.dtype));
        endless = endless || view.q_len == kEndless;
      }
    }
    BatchOutcome outcome;
    if (endless) {
      absl::Notification stopped;
      const std::stop_callback on_stop(stop, [&] { stopped.Notify(); });
      stopped.WaitForNotification();
      outcome.status = absl::CancelledError("stopped");
    }
    return outcome;
  }

 private:
  const int slots_;
  StagingPool staging_{*StagingPool::MapAnonymous(1 << 22)};
};

// Keeps what it is told.
class RecordingObserver final : public EngineObserver {
 public:
  struct Batch {
    int64_t jobs;
    int64_t tokens;
    bool ok;
    friend bool operator==(const Batch&, const Batch&) = default;
  };
  using Drop = std::pair<absl::StatusCode, Job::State>;

  void OnBatch(const DeviceInfo&, DType, int64_t jobs, int64_t tokens, const BatchOutcome& outcome) override {
    absl::MutexLock lock(&mutex_);
    batches_.push_back({jobs, tokens, outcome.status.ok()});
  }
  void OnDropped(absl::StatusCode code, Job::State where) override {
    absl::MutexLock lock(&mutex_);
    drops_.emplace_back(code, where);
  }

  std::vector<Batch> batches() {
    absl::MutexLock lock(&mutex_);
    return batches_;
  }
  std::vector<Drop> drops() {
    absl::MutexLock lock(&mutex_);
    return drops_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<Batch> batches_ ABSL_GUARDED_BY(mutex_);
  std::vector<Drop> drops_ ABSL_GUARDED_BY(mutex_);
};

// One call as its RPC sees it.
struct TestCall {
  std::shared_ptr<AttendJob> job;
  absl::Notification done;
  absl::Status status;
  Job::State where = Job::State::kCreated;
  std::function<void()> on_done;

  const absl::Status& Await() {
    done.WaitForNotification();
    return status;
  }
};
using TestCallPtr = std::shared_ptr<TestCall>;

class EngineTest : public testing::Test {
 protected:
  ~EngineTest() override {
    if (device_ != nullptr) device_->ReleaseAll();
    engine_.reset();
  }

  // `script` is FaultDevice's.
  void Start(const std::string& script, int slots = 1, EngineOptions options = {}) {
    device_ = std::make_unique<FaultDevice>(std::make_unique<CopyingDevice>(slots), *ParseFaultScript(script), &clock_);
    SchedulerOptions scheduler_options;
    scheduler_options.light_cost = 0;  // every slot takes what is there
    scheduler_.emplace(scheduler_options, &clock_);
    engine_ = std::make_unique<Engine>(options, std::make_unique<AttendRunner>(device_.get()), &*scheduler_, &clock_,
                                       &observer_,
                                       Engine::LossFns{[this](const absl::Status& told) {
                                                         EXPECT_TRUE(told_.ok()) << "on_lost runs once";
                                                         told_ = told;
                                                         if (on_lost_) on_lost_();
                                                       },
                                                       [this](const absl::Status& why) {
                                                         EXPECT_FALSE(fatal_.HasBeenNotified()) << "on_fatal runs once";
                                                         EXPECT_FALSE(told_.ok()) << "on_lost runs first";
                                                         fatal_status_ = why;
                                                         if (on_fatal_) on_fatal_();
                                                         fatal_.Notify();
                                                       }});
    period_ = options.watchdog_period;
  }

  // A call of `tokens` rows, its input random-looking, its output poisoned.
  TestCallPtr MakeCall(uint32_t tokens, absl::Duration timeout = absl::InfiniteDuration(), int64_t cost = 1) {
    AttentionParams params;
    params.head_dim = 8;
    const AttendShape shape = *AttendShape::Make(params, {tokens}, {}, false, {});
    StagingBuffer input = *device_->staging().Allocate(shape.input_bytes());
    StagingBuffer output = *device_->staging().Allocate(shape.output_bytes());
    for (size_t i = 0; i < input.size(); ++i) input.data()[i] = static_cast<std::byte>(i * 31 + tokens);
    std::memset(output.data(), 0xEE, output.size());
    const TestCallPtr& call = calls_.emplace_back(std::make_shared<TestCall>());
    call->job = std::make_shared<AttendJob>(
        Job::Traits{.key = AttendJob::Key(params), .cost = cost, .tokens = tokens, .deadline = clock_.Now() + timeout},
        shape, std::move(input), std::move(output), ByteBudget::Charge(),
        [call = call.get()](const absl::Status& status, Job::State where) {
          call->status = status;
          call->where = where;
          if (call->on_done) call->on_done();
          call->done.Notify();
        });
    return call;
  }
  TestCallPtr Enqueue(TestCallPtr call) {
    EXPECT_TRUE(scheduler_->Enqueue(call->job).ok());
    return call;
  }
  TestCallPtr Send(uint32_t tokens, absl::Duration timeout = absl::InfiniteDuration(), int64_t cost = 1) {
    return Enqueue(MakeCall(tokens, timeout, cost));
  }
  static bool OutputIsRight(const TestCall& call) {
    return std::memcmp(call.job->output().data(), call.job->input().data(), call.job->shape().q_bytes) == 0;
  }

  // Moves time once the watchdog waits, so that it looks again afterwards.
  void Advance(absl::Duration by) {
    clock_.AwaitWaiter(clock_.Now() + period_);
    clock_.Advance(by);
  }
  // Lets the watchdog look so many times, and returns when it has.
  void Look(int64_t times = 1) {
    for (int64_t i = 0; i < times; ++i) Advance(period_);
    clock_.AwaitWaiter(clock_.Now() + period_);
  }

  FakeClock clock_;
  RecordingObserver observer_;
  std::unique_ptr<FaultDevice> device_;
  std::optional<Scheduler> scheduler_;
  absl::Status told_;
  absl::Status fatal_status_;
  std::function<void()> on_lost_;
  std::function<void()> on_fatal_;
  absl::Notification fatal_;
  absl::Duration period_;
  std::vector<TestCallPtr> calls_;  // they outlive the engine, whatever a test does with its own references
  std::unique_ptr<Engine> engine_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_ENGINE_ENGINE_TEST_FIXTURE_H_
