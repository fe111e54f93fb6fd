// The server as a target and whole runs, against a fake server over a real socket.
#include "client/cpp/load/load_run.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "client/cpp/load/report.h"
#include "client/cpp/load/tessera_target.h"
#include "client/cpp/tessera/fake_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::load {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// Issues the calls one after the other and returns the statuses; `check` sees each answer.
std::vector<absl::Status> IssueAll(TesseraTarget* target, const std::vector<Call>& calls,
                                   const std::function<void(const Call&, const Answer&)>& check) {
  std::vector<absl::Status> statuses;
  for (const Call& call : calls) {
    absl::BlockingCounter done(1);
    target->Issue(call, [&](const Answer& answer) {
      statuses.push_back(answer.status);
      check(call, answer);
      done.DecrementCount();
    });
    done.Wait();
  }
  return statuses;
}

TEST(TesseraTargetTest, SendsShapePayloadAndTenant) {
  FakeServer server;
  std::vector<FakeServer::Call> seen;
  server.SetJudge([&](const FakeServer::Call& call) {
    seen.push_back(call);
    return FakeServer::Decision();
  });
  const std::vector<CallShape> shapes = {
      *ParseCallShape("s=4,kv=6,sequences=2,heads=4,kv_heads=2,d=16,dtype=fp16,mask=window:3:0,lse=1,priority=low,"
                      "timeout=7s"),
      *ParseCallShape("s=3,heads=2,d=8,dtype=fp32,mask=causal,tenant=green")};
  const PayloadPool payloads(shapes, 2, 1);
  TesseraOptions options;
  options.address = server.target();
  options.connections = 1;
  options.tenants = {"red", "blue"};
  options.priority = v1::PRIORITY_HIGH;
  options.timeout = absl::Seconds(20);
  {
    const auto target = *TesseraTarget::Connect(options, shapes, &payloads);
    EXPECT_EQ(*target->DescribeServer(), "tessera 1.2.3 (), backend fake");
    const auto statuses = IssueAll(target.get(), {{0, 0}, {0, 1}, {1, 1}}, [&](const Call& call, const Answer& answer) {
      const Payload payload = payloads.Get(call.shape, call.payload);
      ASSERT_EQ(static_cast<int64_t>(answer.o.size()), shapes[call.shape].o_bytes());
      ASSERT_EQ(static_cast<int64_t>(answer.lse.size()), shapes[call.shape].lse_bytes());
      // The fake's o is q with each byte one higher.
      for (size_t i = 0; i < answer.o.size(); ++i) {
        ASSERT_EQ(answer.o[i], std::byte(std::to_integer<unsigned>(payload.q[i]) + 1)) << i;
      }
    });
    for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  }

  ASSERT_EQ(seen.size(), 3u);
  const v1::AttendHeader& first = seen[0].header;
  EXPECT_EQ(first.dtype(), v1::DATA_TYPE_FLOAT16);
  EXPECT_EQ(first.q_heads(), 4u);
  EXPECT_EQ(first.kv_heads(), 2u);
  EXPECT_EQ(first.head_dim(), 16u);
  EXPECT_THAT(first.q_lengths(), testing::ElementsAre(4, 4));
  EXPECT_THAT(first.kv_lengths(), testing::ElementsAre(6, 6));
  EXPECT_EQ(first.options().mask().kind(), v1::MASK_KIND_WINDOW);
  EXPECT_EQ(first.options().mask().window_left(), 3);
  EXPECT_EQ(first.options().mask().window_right(), 0);
  EXPECT_TRUE(first.options().return_lse());
  EXPECT_EQ(first.options().priority(), v1::PRIORITY_LOW);
  EXPECT_LE(seen[0].timeout_us, 7000000u);
  EXPECT_GT(seen[0].timeout_us, 1000000u);
  const absl::Span<const std::byte> sent = payloads.Get(0, 0).all();
  ASSERT_EQ(seen[0].payload.size(), sent.size());
  EXPECT_EQ(std::memcmp(seen[0].payload.data(), sent.data(), sent.size()), 0);

  const v1::AttendHeader& third = seen[2].header;
  EXPECT_THAT(third.kv_lengths(), testing::IsEmpty());
  EXPECT_EQ(third.options().mask().kind(), v1::MASK_KIND_CAUSAL);
  EXPECT_EQ(third.options().priority(), v1::PRIORITY_HIGH);
  EXPECT_GT(seen[2].timeout_us, 7000000u);
  // One stream for each tenant's connection.
  EXPECT_THAT(server.tenants(), UnorderedElementsAre("red", "blue", "green"));
}

TEST(TesseraTargetTest, FailuresKeepTheirCodeAndAreNotRetried) {
  FakeServer server;
  server.SetJudge([](const FakeServer::Call&) {
    FakeServer::Decision decision;
    decision.deed = FakeServer::Deed::kFail;
    decision.status = {grpc::StatusCode::RESOURCE_EXHAUSTED, "full"};
    return decision;
  });
  const std::vector<CallShape> shapes = {*ParseCallShape("s=1,heads=1,d=8")};
  const PayloadPool payloads(shapes, 1, 1);
  TesseraOptions options;
  options.address = server.target();
  const auto target = *TesseraTarget::Connect(options, shapes, &payloads);
  const auto statuses = IssueAll(target.get(), {{0, 0}}, [](const Call&, const Answer& answer) {
    EXPECT_FALSE(answer.timing.known());
    EXPECT_TRUE(answer.o.empty());
  });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(server.calls(), 1);
}

TEST(AnswerBuffersTest, ReusesWhatCameBack) {
  const std::vector<CallShape> shapes = {*ParseCallShape("s=2,heads=1,d=8,lse=1"), *ParseCallShape("s=3,heads=1,d=8")};
  AnswerBuffers buffers(shapes);
  const auto first = buffers.Take(0);
  EXPECT_EQ(first->o.size(), 32u);
  EXPECT_EQ(first->lse.size(), 8u);
  EXPECT_NE(buffers.Take(0), first);
  buffers.GiveBack(0, first);
  EXPECT_EQ(buffers.Take(1)->o.size(), 48u);
  EXPECT_EQ(buffers.Take(0), first);
}

class LoadRunTest : public testing::Test {
 protected:
  LoadConfig Config() {
    LoadConfig config;
    config.server.address = server_.target();
    config.server.connections = 2;
    config.shapes = {*ParseCallShape("s=2,heads=2,d=8,dtype=fp32"), *ParseCallShape("s=3,heads=2,d=8,dtype=fp32")};
    config.callers = 4;
    config.length = {.measured = absl::InfiniteDuration(), .max_requests = 200};
    config.progress = false;
    return config;
  }

  FakeServer server_;
  std::atomic<bool> interrupted_{false};
};

TEST_F(LoadRunTest, LoadsServerAndEchoWithTheSameCalls) {
  LoadConfig config = Config();
  config.echo = true;
  ASSERT_TRUE(CompleteConfig(&config).ok());
  const auto report = RunLoadTest(config, &interrupted_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->load, "closed loop, 4 callers, 200 requests measured after 0 of warm-up");
  EXPECT_THAT(report->server, HasSubstr("backend fake"));
  ASSERT_EQ(report->targets.size(), 2u);
  EXPECT_EQ(report->targets[0].name, "server");
  EXPECT_EQ(report->targets[1].name, "echo");
  EXPECT_EQ(server_.calls(), 200);
  for (const TargetReport& target : report->targets) {
    EXPECT_EQ(target.stats.total.ok, 200) << target.name;
    EXPECT_EQ(target.stats.total.failed, 0);
    EXPECT_GT(target.stats.total.requests_per_second, 0);
    EXPECT_EQ(target.stats.total.flops_per_second, 0);  // neither of them says that it computed
    int64_t in_timeline = 0;
    for (const TimelinePoint& point : target.timeline) in_timeline += point.ok;
    EXPECT_EQ(in_timeline, 200);
  }
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(report->targets[0].stats.shapes[i].ok, report->targets[1].stats.shapes[i].ok);
}

TEST_F(LoadRunTest, RoundsAlternateAndAddUp) {
  LoadConfig config = Config();
  config.echo = true;
  config.rounds = 4;
  ASSERT_TRUE(CompleteConfig(&config).ok());
  const auto report = RunLoadTest(config, &interrupted_);
  ASSERT_TRUE(report.ok()) << report.status();
  for (const TargetReport& target : report->targets) {
    EXPECT_EQ(target.stats.total.ok, 200);
    EXPECT_EQ(target.stats.total.latency.count(), 200);
    EXPECT_EQ(target.stats.shapes[0].ok + target.stats.shapes[1].ok, 200);
    // Nearly all answers of a round arrive in its window, so rate times window gives them back.
    EXPECT_NEAR(target.stats.total.requests_per_second * absl::ToDoubleSeconds(target.stats.window), 200, 8);
    for (size_t i = 1; i < target.timeline.size(); ++i) {
      EXPECT_EQ(target.timeline[i].begin, target.timeline[i - 1].begin + target.timeline[i - 1].length);
    }
  }
}

TEST_F(LoadRunTest, OpenLoopOverUnaryCalls) {
  LoadConfig config = Config();
  config.mode = LoadMode::kPoisson;
  config.rate = 2000;
  config.server.transport = Transport::kUnary;
  ASSERT_TRUE(CompleteConfig(&config).ok());
  std::atomic<bool> all_unary{true};
  server_.SetJudge([&](const FakeServer::Call& call) {
    if (!call.unary) all_unary = false;
    return FakeServer::Decision();
  });
  const auto report = RunLoadTest(config, &interrupted_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->targets[0].stats.total.ok, 200);
  EXPECT_TRUE(all_unary);
}

TEST_F(LoadRunTest, WrongAnswersAreFound) {
  LoadConfig config = Config();
  config.verify = 5;
  ASSERT_TRUE(CompleteConfig(&config).ok());
  const auto report = RunLoadTest(config, &interrupted_);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_TRUE(report->check.has_value());
  EXPECT_EQ(report->check->answers, 5);
  EXPECT_GT(report->check->rows, 0);
  EXPECT_EQ(report->check->wrong_rows, report->check->rows);
}

TEST_F(LoadRunTest, GivesUpOnAServerThatRefusesTheShape) {
  server_.SetJudge([](const FakeServer::Call&) {
    FakeServer::Decision decision;
    decision.deed = FakeServer::Deed::kFail;
    decision.status = {grpc::StatusCode::INVALID_ARGUMENT, "head_dim"};
    return decision;
  });
  LoadConfig config = Config();
  config.give_up_after = 20;
  ASSERT_TRUE(CompleteConfig(&config).ok());
  const auto report = RunLoadTest(config, &interrupted_);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("head_dim"));
  EXPECT_LT(server_.calls(), 200);
}

TEST_F(LoadRunTest, WhatAServerAnsweredBeforeItFailedIsReported) {
  server_.SetJudge([](const FakeServer::Call& call) {
    FakeServer::Decision decision;
    if (call.number <= 50) return decision;
    decision.deed = FakeServer::Deed::kFail;
    decision.status = {grpc::StatusCode::INTERNAL, "broken"};
    return decision;
  });
  LoadConfig config = Config();
  config.give_up_after = 20;
  config.echo = true;
  config.rounds = 2;
  ASSERT_TRUE(CompleteConfig(&config).ok());
  const auto report = RunLoadTest(config, &interrupted_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->ended.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(report->ended.message()), HasSubstr("gave up after 20 failures in a row"));
  ASSERT_EQ(report->targets.size(), 1u) << "the echo had no turn any more";
  EXPECT_EQ(report->targets[0].stats.total.ok, 50);
  EXPECT_GE(report->targets[0].stats.total.failed, 20);
  EXPECT_FALSE(report->targets[0].timeline.empty());
  EXPECT_THAT(RenderJson(*report), HasSubstr("\"ended\": \"INTERNAL: server: gave up"));
}

TEST_F(LoadRunTest, NobodyThereIsAnError) {
  LoadConfig config = Config();
  config.server.address = "unix:/nonexistent/tessera.sock";
  ASSERT_TRUE(CompleteConfig(&config).ok());
  EXPECT_EQ(RunLoadTest(config, &interrupted_).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(LoadRunTest, InterruptStillReports) {
  LoadConfig config = Config();
  config.length = {.measured = absl::Hours(1)};
  ASSERT_TRUE(CompleteConfig(&config).ok());
  server_.SetJudge([&](const FakeServer::Call& call) {
    if (call.number >= 50) interrupted_ = true;
    return FakeServer::Decision();
  });
  const auto report = RunLoadTest(config, &interrupted_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GE(report->targets[0].stats.total.ok, 50);
  EXPECT_LT(report->targets[0].stats.window, absl::Minutes(5));
}

}  // namespace
}  // namespace tessera::load
