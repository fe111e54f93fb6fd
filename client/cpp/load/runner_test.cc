#include "client/cpp/load/runner.h"

#include <atomic>
#include <cmath>
#include <random>
#include <vector>

#include "client/cpp/load/simulation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::load {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

absl::Duration P(const Histogram& histogram, double percentile) {
  return absl::Nanoseconds(histogram.Percentile(percentile));
}

// A simulated server with everything that a runner needs around it.
class Bench {
 public:
  explicit Bench(std::function<absl::Duration(const Call&)> service, int64_t give_up_after = 0)
      : target(&clock, std::move(service)),
        workload({*ParseCallShape("s=2")}, 1),
        recorder(workload.shapes(), clock.Now(), absl::Seconds(1)),
        dispatcher(&workload, &target, &clock, &recorder, give_up_after, &interrupted) {}

  std::atomic<bool> interrupted{false};
  SimulatedClock clock;
  SimulatedTarget target;
  Workload workload;
  Recorder recorder;
  Dispatcher dispatcher;
};

std::function<absl::Duration(const Call&)> Constant(absl::Duration service) {
  return [service](const Call&) { return service; };
}

TEST(OpenLoopTest, StallShowsInEveryRequestDueDuringIt) {
  Bench bench(Constant(absl::Milliseconds(1)));
  const absl::Duration start = bench.clock.Now();
  bench.clock.At(start + absl::Seconds(4), [&] { bench.target.Stall(absl::Seconds(1)); });

  const RunStats stats = RunOpenLoop({.process = ArrivalProcess::kConstant, .rate = 100},
                                     {.measured = absl::Seconds(10)}, &bench.dispatcher);

  // 100 requests were due during the stall, waiting for what was left of it: 1 s down to 0. The backlog then drains at
  // 1000/s while 100/s arrive, so about 11 more wait a little.
  ASSERT_EQ(stats.total.ok, 1000);
  EXPECT_THAT(P(stats.total.latency, 50), AllOf(Ge(absl::Milliseconds(1)), Le(absl::Microseconds(1001))));
  EXPECT_THAT(stats.total.latency.CountAbove(absl::ToInt64Nanoseconds(absl::Milliseconds(500))), AllOf(Ge(45), Le(56)));
  EXPECT_THAT(P(stats.total.latency, 95), AllOf(Ge(absl::Milliseconds(500)), Le(absl::Milliseconds(620))));
  EXPECT_GE(absl::Nanoseconds(stats.total.latency.max()), absl::Milliseconds(999));
}

TEST(ClosedLoopTest, SameStallShowsOnceForEachCaller) {
  // The contrast that the open loop exists for: a closed loop asks less while the target stalls.
  Bench bench(Constant(absl::Milliseconds(1)));
  bench.clock.At(bench.clock.Now() + absl::Seconds(4), [&] { bench.target.Stall(absl::Seconds(1)); });

  const RunStats stats = RunClosedLoop(1, {.measured = absl::Seconds(10)}, &bench.dispatcher);

  EXPECT_THAT(stats.total.ok, AllOf(Ge(8990), Le(9001)));
  EXPECT_EQ(stats.total.latency.CountAbove(absl::ToInt64Nanoseconds(absl::Milliseconds(500))), 1);
  EXPECT_LE(P(stats.total.latency, 99.9), absl::Microseconds(1001));
}

// Blocks the sending thread itself, as a full socket might.
class BlockingTarget : public Target {
 public:
  BlockingTarget(SimulatedClock* clock, absl::Duration block) : clock_(clock), block_(block) {}

  void Issue(const Call&, AnswerCallback done) override {
    clock_->Block(block_);
    done(Answer{});
  }

 private:
  SimulatedClock* const clock_;
  const absl::Duration block_;
};

TEST(OpenLoopTest, LatencyCountsFromDueTimeWhenTheSenderIsHeldUp) {
  SimulatedClock clock;
  BlockingTarget target(&clock, absl::Milliseconds(20));
  Workload workload({*ParseCallShape("s=2")}, 1);
  Recorder recorder(workload.shapes(), clock.Now(), absl::Seconds(1));
  const std::atomic<bool> interrupted{false};
  Dispatcher dispatcher(&workload, &target, &clock, &recorder, 0, &interrupted);

  // Due every 10 ms, sent every 20 ms: request i is 10 i ms late. Sending does not skip any.
  const RunStats stats =
      RunOpenLoop({.process = ArrivalProcess::kConstant, .rate = 100}, {.measured = absl::Seconds(1)}, &dispatcher);

  ASSERT_EQ(stats.total.ok, 100);
  EXPECT_EQ(stats.total.latency.max(), absl::ToInt64Nanoseconds(absl::Milliseconds(99 * 10 + 20)));
  EXPECT_EQ(stats.total.send_lag.max(), absl::ToInt64Nanoseconds(absl::Milliseconds(99 * 10)));
  // Half of the answers came within the second that was offered.
  EXPECT_NEAR(stats.total.requests_per_second, 50, 1);
}

TEST(OpenLoopTest, InFlightBoundDropsAndCounts) {
  Bench bench(Constant(absl::Seconds(100)));
  const RunStats stats = RunOpenLoop({.process = ArrivalProcess::kConstant, .rate = 100, .max_in_flight = 10},
                                     {.measured = absl::Seconds(1)}, &bench.dispatcher);
  EXPECT_EQ(stats.total.ok, 10);
  EXPECT_EQ(stats.total.dropped, 90);
  EXPECT_DOUBLE_EQ(stats.total.error_fraction(), 0.9);
  EXPECT_EQ(stats.total.requests_per_second, 0);  // none came within the window
}

TEST(OpenLoopTest, WarmUpIsSentButNotMeasured) {
  int served = 0;
  Bench bench([&](const Call&) { return ++served <= 100 ? absl::Milliseconds(9) : absl::Milliseconds(1); });
  const RunStats stats = RunOpenLoop({.process = ArrivalProcess::kConstant, .rate = 100},
                                     {.warm_up = absl::Seconds(1), .measured = absl::Seconds(2)}, &bench.dispatcher);
  EXPECT_EQ(served, 300);
  EXPECT_EQ(stats.total.ok, 200);
  EXPECT_EQ(stats.total.latency.max(), absl::ToInt64Nanoseconds(absl::Milliseconds(1)));
  EXPECT_NEAR(stats.total.requests_per_second, 100, 1);
}

TEST(OpenLoopTest, RequestBoundCountsMeasuredOnes) {
  Bench bench(Constant(absl::Milliseconds(1)));
  const RunStats stats =
      RunOpenLoop({.process = ArrivalProcess::kConstant, .rate = 100},
                  {.warm_up = absl::Seconds(1), .measured = absl::Seconds(100), .max_requests = 50}, &bench.dispatcher);
  EXPECT_EQ(stats.total.ok, 50);
  EXPECT_LT(stats.window, absl::Seconds(1));
}

TEST(OpenLoopTest, InterruptEndsTheRunAndKeepsWhatWasMeasured) {
  Bench bench(Constant(absl::Milliseconds(1)));
  bench.clock.At(bench.clock.Now() + absl::Seconds(2), [&] { bench.interrupted = true; });
  const RunStats stats = RunOpenLoop({.process = ArrivalProcess::kConstant, .rate = 100},
                                     {.measured = absl::Seconds(1000)}, &bench.dispatcher);
  EXPECT_NEAR(static_cast<double>(stats.total.ok), 200, 2);
  EXPECT_NEAR(absl::ToDoubleSeconds(stats.window), 2, 0.1);
}

TEST(ClosedLoopTest, InterruptEndsTheRun) {
  Bench bench(Constant(absl::Milliseconds(1)));
  bench.clock.At(bench.clock.Now() + absl::Seconds(2), [&] { bench.interrupted = true; });
  const RunStats stats = RunClosedLoop(3, {.measured = absl::Seconds(1000)}, &bench.dispatcher);
  EXPECT_NEAR(static_cast<double>(stats.total.ok), 2000, 5);
  EXPECT_NEAR(stats.total.requests_per_second, 1000, 5);
}

TEST(RampTest, InterruptDropsTheStepThatItCutShort) {
  Bench bench(Constant(absl::Milliseconds(1)));
  bench.clock.At(bench.clock.Now() + absl::Seconds(12), [&] { bench.interrupted = true; });
  RampPlan plan;
  plan.step = {.measured = absl::Seconds(5)};
  const RampResult result = RunRamp(plan, bench.clock.Now(), &bench.dispatcher);
  EXPECT_EQ(result.steps.size(), 2u);
  EXPECT_EQ(result.knee, 1);
}

TEST(ClosedLoopTest, RateFollowsFromCallersAndService) {
  Bench bench(Constant(absl::Milliseconds(2)));
  const RunStats stats =
      RunClosedLoop(4, {.warm_up = absl::Seconds(1), .measured = absl::Seconds(5)}, &bench.dispatcher);
  // One server of 2 ms: 500/s, each call waiting for three others.
  EXPECT_NEAR(stats.total.requests_per_second, 500, 1);
  EXPECT_EQ(P(stats.total.latency, 50), absl::Milliseconds(8));
  EXPECT_EQ(P(stats.total.queue, 50), absl::Milliseconds(6));
  EXPECT_EQ(P(stats.total.run, 50), absl::Milliseconds(2));
  EXPECT_EQ(stats.total.elsewhere.max(), 0);
  EXPECT_EQ(stats.window, absl::Seconds(5));
}

TEST(ClosedLoopTest, RequestBoundIsExact) {
  Bench bench(Constant(absl::Milliseconds(1)));
  const RunStats stats = RunClosedLoop(8, {.max_requests = 1001}, &bench.dispatcher);
  EXPECT_EQ(stats.total.ok, 1001);
  EXPECT_NEAR(stats.total.requests_per_second, 1000, 2);
}

// Fails every call at once, before Issue returns.
class RefusingTarget : public Target {
 public:
  explicit RefusingTarget(absl::Status status) : status_(std::move(status)) {}
  void Issue(const Call&, AnswerCallback done) override {
    ++issued_;
    Answer answer;
    answer.status = status_;
    done(answer);
  }
  int issued() const { return issued_; }

 private:
  const absl::Status status_;
  int issued_ = 0;
};

TEST(ClosedLoopTest, GivesUpOnFailuresThatLoadDoesNotExplain) {
  SimulatedClock clock;
  RefusingTarget target(absl::UnavailableError("nobody there"));
  Workload workload({*ParseCallShape("s=2")}, 1);
  Recorder recorder(workload.shapes(), clock.Now(), absl::Seconds(1));
  const std::atomic<bool> interrupted{false};
  Dispatcher dispatcher(&workload, &target, &clock, &recorder, 1000, &interrupted);
  const RunStats stats = RunClosedLoop(2, {.measured = absl::Seconds(1)}, &dispatcher);
  EXPECT_EQ(target.issued(), 1000);
  EXPECT_EQ(dispatcher.give_up_status(), absl::UnavailableError("nobody there"));
  EXPECT_EQ(stats.total.errors.at(absl::StatusCode::kUnavailable), 1000);
}

TEST(ClosedLoopTest, KeepsGoingWhenTheTargetIsOnlyFull) {
  SimulatedClock clock;
  RefusingTarget target(absl::ResourceExhaustedError("full"));
  Workload workload({*ParseCallShape("s=2")}, 1);
  Recorder recorder(workload.shapes(), clock.Now(), absl::Seconds(1));
  const std::atomic<bool> interrupted{false};
  Dispatcher dispatcher(&workload, &target, &clock, &recorder, 10, &interrupted);
  // Answered inline 100,000 times in a row: recursion would exhaust the stack.
  const RunStats stats = RunClosedLoop(1, {.max_requests = 100000}, &dispatcher);
  EXPECT_EQ(stats.total.failed, 100000);
  EXPECT_TRUE(dispatcher.give_up_status().ok());
}

// Poisson arrivals and exponential service at one server: the time in the system is exponential with the rate
// mu - lambda, so its p99 is ln(100) / (mu - lambda), and the knee is known.
TEST(RampTest, FindsTheKneeOfAnMM1Queue) {
  constexpr uint64_t kSeed = 20261129;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  constexpr double kServiceRate = 1000;
  std::mt19937_64 random(kSeed);
  std::exponential_distribution<double> service(kServiceRate);
  Bench bench([&](const Call&) { return absl::Seconds(service(random)); });

  RampPlan plan;
  plan.first_rate = 100;
  plan.growth = 1.5;
  plan.refinements = 4;
  plan.step = {.warm_up = absl::Seconds(2), .measured = absl::Seconds(120)};
  plan.slo = {.p99 = absl::Milliseconds(20), .error_fraction = 0.01};
  const RampResult result = RunRamp(plan, bench.clock.Now(), &bench.dispatcher);

  ASSERT_GE(result.knee, 0);
  EXPECT_TRUE(result.bracketed);
  const double expected = kServiceRate - std::log(100.0) / 0.020;  // 770
  EXPECT_NEAR(result.steps[static_cast<size_t>(result.knee)].offered, expected, 0.07 * expected);
  for (const RampStep& step : result.steps) {
    SCOPED_TRACE(testing::Message() << step.offered << "/s " << step.broken);
    EXPECT_EQ(step.met_slo, step.broken.empty());
    EXPECT_TRUE(step.met_slo || step.offered > 0.8 * expected);
    EXPECT_TRUE(!step.met_slo || step.offered < 1.2 * expected);
  }
  // The second step measures what theory says: 150/s leaves p99 = 4.605 / 850 s.
  EXPECT_NEAR(absl::ToDoubleSeconds(P(result.steps[1].stats.total.latency, 99)), std::log(100.0) / 850, 0.0004);
}

TEST(RampTest, FallingBehindBreaksTheSloWhateverTheLatency) {
  Bench bench(Constant(absl::Milliseconds(1)));
  RampPlan plan;
  plan.first_rate = 800;
  plan.growth = 2;
  plan.refinements = 0;
  plan.step = {.measured = absl::Seconds(5)};
  plan.max_in_flight = 1000000;
  plan.slo = {.p99 = absl::Seconds(60), .error_fraction = 0.01};
  const RampResult result = RunRamp(plan, bench.clock.Now(), &bench.dispatcher);
  ASSERT_EQ(result.steps.size(), 2u);
  EXPECT_EQ(result.knee, 0);
  EXPECT_THAT(result.steps[1].broken, testing::HasSubstr("answered"));
  EXPECT_NEAR(result.steps[1].stats.total.requests_per_second, 1000, 2);
}

TEST(RampTest, NoKneeWhereTheFirstStepBreaks) {
  Bench bench(Constant(absl::Milliseconds(50)));
  RampPlan plan;
  plan.first_rate = 10;
  plan.step = {.measured = absl::Seconds(5)};
  plan.slo = {.p99 = absl::Milliseconds(20)};
  const RampResult result = RunRamp(plan, bench.clock.Now(), &bench.dispatcher);
  EXPECT_EQ(result.knee, -1);
  EXPECT_EQ(result.steps.size(), 1u);
}

TEST(RampTest, EndsUnbracketedAtTheHighestRate) {
  Bench bench(Constant(absl::Microseconds(1)));
  RampPlan plan;
  plan.first_rate = 10;
  plan.growth = 2;
  plan.max_rate = 40;
  plan.step = {.measured = absl::Seconds(5)};
  const RampResult result = RunRamp(plan, bench.clock.Now(), &bench.dispatcher);
  EXPECT_FALSE(result.bracketed);
  ASSERT_EQ(result.steps.size(), 3u);
  EXPECT_EQ(result.knee, 2);
}

}  // namespace
}  // namespace tessera::load
