// tessera-load's decode runs against the real server.
#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cpp/load/decode/decode_report.h"
#include "client/cpp/load/decode/decode_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/test_server.h"

namespace tessera::load {
namespace {

using tessera::testing::TestServer;
using ::testing::HasSubstr;

constexpr char kSequences[] = "tessera_kv_sequences{profile=\"small\"}";

ServerConfig WithProfile(int32_t pages = 512) {
  ServerConfig config = TestServer::Config();
  config.kv_profiles = {{.name = "small",
                         .layers = 2,
                         .kv_heads = 2,
                         .head_dim = 16,
                         .dtype = DType::kFloat32,
                         .page_tokens = 8,
                         .pages = pages,
                         .max_tokens = 200,
                         .max_sequences = 64}};
  return config;
}

LoadConfig Load(TestServer& server, const char* decode) {
  LoadConfig config;
  config.server.address = absl::StrCat("127.0.0.1:", server.server().grpc_port());
  config.server.connections = 2;
  config.shapes = {*ParseCallShape("s=1")};
  config.decode = *ParseDecodeShape(decode);
  config.callers = 3;
  config.length = {.measured = absl::InfiniteDuration(), .max_requests = 6};
  config.progress = false;
  return config;
}

absl::StatusOr<DecodeReport> Decode(LoadConfig config) {
  const std::atomic<bool> interrupted{false};
  if (absl::Status status = CompleteConfig(&config); !status.ok()) return status;
  return RunDecode(config, &interrupted);
}

TEST(DecodeLoadTest, ServerAndEchoDecodeTheSameTokens) {
  for (const Transport transport : {Transport::kStream, Transport::kUnary}) {
    TestServer server("", WithProfile());
    LoadConfig config = Load(server, "profile=small,heads=6,prefill=1..40,chunk=16,steps=4,tokens=2,group=2");
    config.server.transport = transport;
    config.echo = true;
    config.verify = 40;
    const absl::StatusOr<DecodeReport> report = Decode(config);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(report->load, HasSubstr("2 layers, 6 heads, 2 tokens a step, 2 sequences in a call"));
    EXPECT_THAT(report->server, HasSubstr("profile small"));
    EXPECT_EQ(report->step_up_bytes, 2 * (6 + 2 + 2) * 16 * 4);
    EXPECT_EQ(report->step_down_bytes, 2 * 6 * 16 * 4);
    ASSERT_EQ(report->targets.size(), 2u);
    for (const DecodeTargetReport& target : report->targets) {
      const DecodeStats& stats = target.stats;
      EXPECT_EQ(stats.sequences, 6 * 2) << target.name;
      EXPECT_EQ(stats.failed_sequences, 0);
      EXPECT_EQ(stats.tokens, 6 * 2 * 4 * 2);
      EXPECT_EQ(stats.layer_steps, 6 * 2 * 4 * 2);
      EXPECT_EQ(stats.token_time.count(), 6 * 4);
      EXPECT_EQ(stats.first_token.count(), 6);
      EXPECT_EQ(stats.inter_token.count(), 6 * 3);
      EXPECT_EQ(stats.step.count(), 6 * 4 * 2);
    }
    EXPECT_GE(report->targets[0].stats.prefill_tokens, 6 * 2);
    EXPECT_EQ(report->targets[1].stats.prefill_tokens, 0);
    ASSERT_TRUE(report->check.has_value());
    EXPECT_EQ(report->check->answers, 40);
    EXPECT_EQ(report->check->wrong_rows, 0) << report->check->first_wrong;
    server.AwaitMetric(kSequences, 0);
    server.AwaitIdle();
  }
}

TEST(DecodeLoadTest, OpenLoopBeginsWhatItWasAskedFor) {
  TestServer server("", WithProfile());
  LoadConfig config = Load(server, "profile=small,steps=3/5,layers=1");
  config.mode = LoadMode::kPoisson;
  config.rate = 500;
  config.length.max_requests = 30;
  config.rounds = 3;
  const absl::StatusOr<DecodeReport> report = Decode(config);
  ASSERT_TRUE(report.ok()) << report.status();
  const DecodeStats& stats = report->targets[0].stats;
  EXPECT_EQ(stats.sequences, 30);
  EXPECT_EQ(stats.layer_steps, stats.tokens);
  EXPECT_GE(stats.tokens, 30 * 3);
  EXPECT_LE(stats.tokens, 30 * 5);
  EXPECT_EQ(stats.prefill.count(), 0);
  server.AwaitMetric(kSequences, 0);
}

TEST(DecodeLoadTest, FullPoolsRefuseAndLoseNothing) {
  TestServer server("", WithProfile(5));  // two sequences of 24 tokens need 6
  LoadConfig config = Load(server, "profile=small,prefill=8,steps=16");
  config.callers = 2;
  config.length.max_requests = 20;
  config.verify = 20;
  const absl::StatusOr<DecodeReport> report = Decode(config);
  ASSERT_TRUE(report.ok()) << report.status();
  const DecodeStats& stats = report->targets[0].stats;
  EXPECT_EQ(stats.sequences, 20);
  EXPECT_EQ(stats.tokens, 20 * 16);
  EXPECT_GT(stats.refused_steps, 0);
  EXPECT_EQ(stats.failed_steps, 0);
  EXPECT_EQ(report->check->wrong_rows, 0) << report->check->first_wrong;
}

TEST(DecodeLoadTest, FailedStepsEndTheirSequencesOnly) {
  TestServer server("run@3=internal", WithProfile());
  LoadConfig config = Load(server, "profile=small,steps=4");
  config.callers = 1;
  const absl::StatusOr<DecodeReport> report = Decode(config);
  ASSERT_TRUE(report.ok()) << report.status();
  const DecodeStats& stats = report->targets[0].stats;
  EXPECT_EQ(stats.sequences, 5);
  EXPECT_EQ(stats.failed_sequences, 1);
  EXPECT_EQ(stats.failed_steps, 1);
  EXPECT_EQ(stats.errors.at(absl::StatusCode::kInternal), 1);
  server.AwaitMetric(kSequences, 0);
}

TEST(DecodeLoadTest, WhatCannotBeIsRefused) {
  TestServer server("run@*=internal", WithProfile());
  for (const auto& [decode, what] : {std::pair{"profile=large", "profile"},
                                     {"profile=small,heads=3", "heads"},
                                     {"profile=small,layers=3", "layers"},
                                     {"profile=small,prefill=190,steps=20", "prefill"}}) {
    const absl::Status status = Decode(Load(server, decode)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << decode;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }
  LoadConfig hopeless = Load(server, "profile=small");
  hopeless.give_up_after = 5;
  hopeless.length.max_requests = 1000;
  const absl::Status status = Decode(hopeless).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("gave up after 5"));

  LoadConfig ramp = Load(server, "profile=small");
  ramp.mode = LoadMode::kRamp;
  EXPECT_THAT(std::string(Decode(ramp).status().message()), HasSubstr("--mode"));
}

TEST(DecodeLoadTest, WhatAServerDidBeforeItFailedIsReported) {
  TestServer server("run@40+=internal", WithProfile());
  LoadConfig config = Load(server, "profile=small,steps=4");
  config.give_up_after = 5;
  config.length.max_requests = 1000;
  const absl::StatusOr<DecodeReport> report = Decode(config);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->targets[0].stats.tokens, 0);
  EXPECT_EQ(report->ended.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(RenderDecodeJson(*report), HasSubstr("\"ended\": \"INTERNAL: server: gave up after 5"));
}

TEST(DecodeLoadTest, TheTimeEndsLongSequences) {
  TestServer server("", WithProfile());
  LoadConfig config = Load(server, "profile=small,steps=190");
  config.length = {.measured = absl::Milliseconds(30)};
  const absl::StatusOr<DecodeReport> report = Decode(config);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->targets[0].stats.window, absl::Milliseconds(30));
  server.AwaitMetric(kSequences, 0);
}

}  // namespace
}  // namespace tessera::load
