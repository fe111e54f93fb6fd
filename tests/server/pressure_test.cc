// Clients that would hold the server's memory: by what they send, by what they do not send, by what they do not read.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "tests/server/attend_messages.h"
#include "tests/server/await.h"
#include "tests/server/connection.h"
#include "tests/server/raw_rpc.h"
#include "tests/server/stream_client.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

constexpr int kDeadlineExceeded = static_cast<int>(grpc::StatusCode::DEADLINE_EXCEEDED);
constexpr int kResourceExhausted = static_cast<int>(grpc::StatusCode::RESOURCE_EXHAUSTED);
constexpr char kExpiredInReceive[] = "tessera_expired_total{where=\"receive\"}";
constexpr char kExpiredInSend[] = "tessera_expired_total{where=\"send\"}";
constexpr char kCancelledInSend[] = "tessera_cancelled_total{where=\"send\"}";
constexpr char kByteBudget[] = "tessera_rejected_total{reason=\"byte_budget\"}";
constexpr char kAnswered[] = "tessera_stage_seconds_count{stage=\"queue\"}";

class PressureTest : public ::testing::Test {
 protected:
  v1::AttendRequest Small() { return Request(Header({4}), rng_); }
  // Its answer, 2 MiB, is more than the connection's flow control lets through to a client that does not read.
  v1::AttendRequest Large() { return Request(ManyRows(4096), rng_); }

  static ServerConfig Roomy() {
    ServerConfig config = TestServer::Config();
    config.staging_bytes = 64 << 20;
    config.max_inflight_bytes = 128 << 20;
    return config;
  }
  static void AwaitStaging(const TestServer& server) {
    server.AwaitOccupancy([](const v1::Occupancy& occupancy) { return occupancy.staging_used_bytes() > 0; });
  }
  // Moves the clock on until `sample` is 1.
  static void AdvanceUntilOne(TestServer& server, const char* sample) {
    Await(sample, [&] {
      server.clock().Advance(absl::Seconds(1));
      return server.Metrics()[sample] == 1;
    });
  }

  std::mt19937_64 rng_{91};
};

TEST_F(PressureTest, EmptySequencesAreCharged) {
  ServerConfig config = TestServer::Config();
  config.max_inflight_bytes = 16 << 20;
  config.attend.request.max_sequences = 65536;
  TestServer server("run@1=hang", config);
  // A message of 64 KiB, for which the server keeps 10 MB.
  const v1::AttendRequest request = Request(Header(std::vector<uint32_t>(65536, 0)), rng_);
  UnaryCall first(server.attention(), request);
  server.device().AwaitBatch(1);
  EXPECT_GE(server.Info().occupancy().inflight_bytes(), 65536 * sizeof(SequenceView));
  UnaryCall second(server.attention(), request);
  EXPECT_EQ(second.Await().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(server.Metrics()[kByteBudget], 1);
  server.device().ReleaseAll();
  EXPECT_TRUE(first.Await().ok());
  server.AwaitIdle();
}

TEST_F(PressureTest, CallThatIsNeverCompletedGivesItsMemoryBack) {
  TestServer server;
  StreamClient stream(server.attention());
  stream.Send(StreamMessages(1, Small(), 512)[0]);
  AwaitStaging(server);
  const absl::Duration timeout = TestServer::Config().attend.assembly_timeout;
  server.clock().AwaitWaiter(server.clock().Now() + timeout);
  server.clock().Advance(timeout);
  EXPECT_EQ(stream.Await(1).status.code(), kDeadlineExceeded);
  EXPECT_EQ(server.Metrics()[kExpiredInReceive], 1);
  server.AwaitIdle();
}

TEST_F(PressureTest, EachChunkGivesACallMoreTime) {
  TestServer server;
  StreamClient stream(server.attention());
  const v1::AttendRequest request = Small();
  const std::vector<v1::AttendStreamRequest> messages = StreamMessages(1, request, 512);
  const absl::Duration timeout = TestServer::Config().attend.assembly_timeout;
  const absl::Time start = server.clock().Now();
  stream.Send(messages[0]);
  server.clock().AwaitWaiter(start + timeout);
  server.clock().Advance(timeout - absl::Seconds(1));
  stream.Send(messages[1]);
  server.AwaitMetric("tessera_copied_bytes_total{direction=\"receive\"}", 1024);
  server.clock().Advance(absl::Seconds(1));
  server.clock().AwaitWaiter(start + timeout - absl::Seconds(1) + timeout);
  for (size_t i = 2; i < messages.size(); ++i) stream.Send(messages[i]);
  const StreamedAnswer answer = stream.Await(1);
  EXPECT_EQ(answer.status.code(), 0) << answer.status.message();
  EXPECT_LT(Error(request, answer.payload), 1e-5);
}

TEST_F(PressureTest, ChunksGiveACallNoMoreTimeThanItsWholeAssemblyMayTake) {
  ServerConfig config = TestServer::Config();
  const absl::Duration most = config.attend.assembly_timeout;
  config.attend.max_assembly_time = most;
  TestServer server("", config);
  StreamClient stream(server.attention());
  const std::vector<v1::AttendStreamRequest> messages = StreamMessages(1, Small(), 512);
  ASSERT_GT(messages.size(), 2u);
  stream.Send(messages[0]);
  server.clock().AwaitWaiter(server.clock().Now() + most);
  server.clock().Advance(most - absl::Seconds(1));
  stream.Send(messages[1]);
  server.AwaitMetric("tessera_copied_bytes_total{direction=\"receive\"}", 1024);
  server.clock().Advance(absl::Seconds(1));
  const StreamedAnswer answer = stream.Await(1);
  EXPECT_EQ(answer.status.code(), kDeadlineExceeded);
  EXPECT_THAT(answer.status.message(), ::testing::HasSubstr("not all bytes"));
  EXPECT_EQ(server.Metrics()[kExpiredInReceive], 1);
  server.AwaitIdle();
}

TEST_F(PressureTest, OneTenantLeavesOthersRoom) {
  ServerConfig config = TestServer::Config();
  config.attend.max_tenant_memory_share = 0.5;
  TestServer server("", config);
  StreamClient greedy(server.attention(), "greedy");
  // Openings of 1 MiB each; half of 8 MiB of staging is the tenant's.
  for (uint64_t id = 1; id <= 5; ++id) {
    v1::AttendStreamRequest opening;
    opening.set_id(id);
    *opening.mutable_header() = Header({2048});
    greedy.Send(opening);
  }
  const StreamedAnswer refused = greedy.Await(5);
  EXPECT_EQ(refused.status.code(), kResourceExhausted);
  EXPECT_GE(refused.status.retry_after_ms(), 25u);
  UnaryCall other(server.attention(), Request(Header({2048}), rng_), "other");
  EXPECT_TRUE(other.Await().ok()) << other.Await().error_message();
}

TEST_F(PressureTest, StreamThatIsNotReadGivesItsMemoryBack) {
  TestServer server("", Roomy());
  const absl::Time start = server.clock().Now();
  StreamClient stream(server.attention());
  stream.Send(StreamMessages(1, Large(), 1 << 20));
  server.AwaitMetric(kAnswered, 1);
  AdvanceUntilOne(server, kExpiredInSend);
  EXPECT_GE(server.clock().Now() - start, Roomy().attend.send_timeout);
  EXPECT_EQ(server.Metrics()[kCancelledInSend], 0);
  server.AwaitIdle();
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::CANCELLED) << "as the protocol says";
}

TEST_F(PressureTest, DrainingRefusesUntilTheLastAnswerIsRead) {
  TestServer server;
  const auto channel = server.NewChannel();
  const auto stub = v1::AttentionService::NewStub(channel);
  UnaryCall first(*stub, Small());
  ASSERT_TRUE(first.Await().ok()) << first.Await().error_message();
  // More answers, all of them refusals, than flow control lets through to a client that does not read: none holds
  // memory, but the stream is open.
  StreamClient stream(server.attention());
  v1::AttendStreamRequest bad;
  *bad.mutable_header() = Header({1});
  bad.mutable_header()->set_head_dim(9);
  constexpr uint64_t kCalls = 3000;
  for (uint64_t id = 1; id <= kCalls; ++id) {
    bad.set_id(id);
    ASSERT_TRUE(stream.Send(bad));
  }
  server.AwaitMetric("tessera_rejected_total{reason=\"invalid\"}", kCalls);
  const int port = server.server().grpc_port();
  std::thread drain([&] { EXPECT_TRUE(server.server().Drain(absl::Seconds(30))); });
  Await("the listening socket's end", [&] { return !Connection::Possible(port); });
  for (int i = 0; i < 3; ++i) {
    UnaryCall refused(*stub, Small());
    EXPECT_EQ(refused.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_THAT(refused.Await().error_message(), ::testing::HasSubstr("draining"));
    EXPECT_EQ(refused.RetryPushback(), "200");
  }
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(stream.answers().size(), kCalls);
  drain.join();
}

TEST_F(PressureTest, UnaryAnswerThatIsNotReadGivesItsMemoryBack) {
  TestServer server("", Roomy());
  const absl::Time start = server.clock().Now();
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(server.channel());
  const auto call = stub.PrepareCall(&context, "/tessera.v1.AttentionService/Attend", &queue);
  const auto await = [&queue] {
    void* tag;
    bool ok;
    return queue.Next(&tag, &ok) && ok;
  };
  call->StartCall(nullptr);
  ASSERT_TRUE(await());
  call->WriteLast(ToByteBuffer(Large().SerializeAsString()), grpc::WriteOptions(), nullptr);
  ASSERT_TRUE(await());
  server.AwaitMetric(kAnswered, 1);
  AdvanceUntilOne(server, kExpiredInSend);
  EXPECT_GE(server.clock().Now() - start, Roomy().attend.send_timeout);
  server.AwaitIdle();
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  await();
  queue.Shutdown();
  EXPECT_FALSE(await());
}

TEST_F(PressureTest, StreamThatReadsLateIsLetBe) {
  TestServer server("", Roomy());
  StreamClient stream(server.attention());
  stream.Send(StreamMessages(1, Large(), 1 << 20));
  server.AwaitMetric(kAnswered, 1);
  server.clock().Advance(Roomy().attend.send_timeout - absl::Seconds(1));
  EXPECT_EQ(stream.Await(1).status.code(), 0);
  // Nothing is under way: silence is no slowness.
  server.clock().Advance(10 * Roomy().attend.send_timeout);
  stream.Send(StreamMessages(2, Small(), 4096));
  EXPECT_EQ(stream.Await(2).status.code(), 0);
  EXPECT_EQ(server.Metrics()[kExpiredInSend], 0);
}

TEST_F(PressureTest, EveryUnsentAnswerIsCounted) {
  TestServer server("", Roomy());
  StreamClient stream(server.attention());
  for (uint64_t id = 1; id <= 3; ++id) stream.Send(StreamMessages(id, Large(), 1 << 20));
  server.AwaitMetric(kAnswered, 3);
  stream.Cancel();
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::CANCELLED);
  server.AwaitMetric(kCancelledInSend, 3);
  server.AwaitIdle();
}

TEST_F(PressureTest, ChunksOfNoCallNeedNoRoom) {
  ServerConfig config = TestServer::Config();
  config.max_inflight_bytes = 1 << 20;
  TestServer server("", config);
  StreamClient stream(server.attention());
  v1::AttendStreamRequest stale;
  stale.set_id(9);
  stale.set_payload(std::string(2 << 20, 'x'));
  stream.Send(stale);
  stale.set_cancel(true);
  stream.Send(stale);
  stream.Send(StreamMessages(1, Small(), 4096));
  EXPECT_EQ(stream.Await(1).status.code(), 0);
  EXPECT_EQ(server.Metrics()[kByteBudget], 0);
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"invalid\"}"], 0);
}

TEST_F(PressureTest, DrainedServerTellsWhetherItsMemoryIsBack) {
  TestServer server;
  StagingBuffer slice = *server.device().staging().Allocate(100);
  EXPECT_TRUE(server.server().Drain(absl::ZeroDuration()));
  EXPECT_FALSE(server.server().AwaitMemory(absl::Milliseconds(5)));
  slice.Release();
  EXPECT_TRUE(server.server().AwaitMemory(absl::ZeroDuration()));
}

}  // namespace
}  // namespace tessera::testing
