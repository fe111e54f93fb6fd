// A caller gives up: at every station the work is dropped, counted once, and its memory comes back.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/attend_messages.h"
#include "tests/server/connection.h"
#include "tests/server/stream_client.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

std::string Cancelled(const char* where) { return std::string("tessera_cancelled_total{where=\"") + where + "\"}"; }

class CancellationTest : public ::testing::Test {
 protected:
  v1::AttendRequest Small() { return Request(Header({4}), rng_); }

  std::mt19937_64 rng_{31};
};

TEST_F(CancellationTest, InReceive) {
  TestServer server;
  StreamClient stream(server.attention());
  const std::vector<v1::AttendStreamRequest> messages = StreamMessages(1, Small(), 512);
  ASSERT_GT(messages.size(), 2u);
  stream.Send(messages[0]);
  server.AwaitOccupancy([](const v1::Occupancy& occupancy) { return occupancy.staging_used_bytes() > 0; });
  stream.SendCancel(1);
  EXPECT_EQ(stream.Await(1).status.code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(server.Metrics()[Cancelled("receive")], 1);
  server.AwaitIdle();
  // Chunks that were on their way are dropped without an answer, and the id is free.
  stream.Send(messages[1]);
  stream.Send(StreamMessages(1, Small(), 4096));
  EXPECT_EQ(stream.Await(1).status.code(), grpc::StatusCode::OK);
}

// An HTTP/2 frame of `stream`; 0: of the connection.
std::string Frame(char type, char flags, const std::string& payload, char stream = 1) {
  const size_t size = payload.size();
  std::string frame = {static_cast<char>(size >> 16),
                       static_cast<char>(size >> 8),
                       static_cast<char>(size),
                       type,
                       flags,
                       0,
                       0,
                       0,
                       stream};
  return frame + payload;
}

// A header field, literal and not to be indexed. REQUIRES: both shorter than 127 bytes.
std::string Field(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name + static_cast<char>(value.size()) + value;
}

TEST_F(CancellationTest, WhileAUnaryMessageIsBeingSent) {
  TestServer server;
  const Connection connection(server.server().grpc_port());
  constexpr char kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kEndHeaders = 4;
  const std::string fields = Field(":method", "POST") + Field(":scheme", "http") +
                             Field(":path", "/tessera.v1.AttentionService/Attend") + Field(":authority", "localhost") +
                             Field("te", "trailers") + Field("content-type", "application/grpc");
  connection.Send(
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, 0, "", 0) + Frame(kHeaders, kEndHeaders, fields) +
      // 100 bytes are announced, 3 come.
      Frame(kData, 0, std::string("\0\0\0\0\x64", 5) + "abc") + Frame(kReset, 0, std::string("\0\0\0\x08", 4)));
  server.AwaitMetric(Cancelled("receive"), 1);
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"invalid\"}"], 0);
  server.AwaitMetric(
      "grpc_server_handled_total{grpc_code=\"Canceled\",grpc_method=\"Attend\","
      "grpc_service=\"tessera.v1.AttentionService\",grpc_type=\"unary\"}",
      1);
}

TEST_F(CancellationTest, InQueueUnary) {
  TestServer server("run@1=hang");
  UnaryCall running(server.attention(), Small());
  server.device().AwaitBatch(1);
  UnaryCall waiting(server.attention(), Small());
  server.AwaitQueued(1);
  waiting.Cancel();
  EXPECT_EQ(waiting.Await().error_code(), grpc::StatusCode::CANCELLED);
  // It leaves the queue at once, not when a slot comes by.
  server.AwaitQueued(0);
  server.AwaitMetric(Cancelled("queue"), 1);
  server.device().ReleaseAll();
  EXPECT_TRUE(running.Await().ok());
  server.AwaitIdle();
  EXPECT_EQ(server.Metrics()["tessera_batches_total{kernel=\"cpu\"}"], 1) << "the cancelled call was run";
}

TEST_F(CancellationTest, InQueueStream) {
  TestServer server("run@1=hang");
  StreamClient stream(server.attention());
  stream.Send(StreamMessages(1, Small(), 4096));
  server.device().AwaitBatch(1);
  stream.Send(StreamMessages(2, Small(), 4096));
  server.AwaitQueued(1);
  stream.SendCancel(2);
  EXPECT_EQ(stream.Await(2).status.code(), grpc::StatusCode::CANCELLED);
  server.AwaitQueued(0);
  EXPECT_EQ(server.Metrics()[Cancelled("queue")], 1);
  server.device().ReleaseAll();
  EXPECT_EQ(stream.Await(1).status.code(), grpc::StatusCode::OK);
}

TEST_F(CancellationTest, InRunBetweenReruns) {
  // A batch of two fails; while its first call runs again and hangs, the second is cancelled and must not run.
  TestServer server("run@1=hang; run@2=internal; run@3=hang");
  UnaryCall holder(server.attention(), Small());
  server.device().AwaitBatch(1);
  UnaryCall first(server.attention(), Small());
  server.AwaitQueued(1);
  UnaryCall second(server.attention(), Small());
  server.AwaitQueued(2);
  server.device().Release(1);
  server.device().AwaitBatch(3);
  second.Cancel();
  server.AwaitMetric(Cancelled("run"), 1);
  server.device().ReleaseAll();
  EXPECT_TRUE(first.Await().ok());
  server.AwaitIdle();
  EXPECT_EQ(server.Metrics()["tessera_batches_total{kernel=\"cpu\"}"], 3);
}

TEST_F(CancellationTest, InRunKeepsMemoryUntilTheDeviceLetsGo) {
  TestServer server("run@1=hang");
  UnaryCall running(server.attention(), Small());
  server.device().AwaitBatch(1);
  running.Cancel();
  EXPECT_EQ(running.Await().error_code(), grpc::StatusCode::CANCELLED);
  server.AwaitMetric(Cancelled("run"), 1);
  EXPECT_GT(server.Info().occupancy().staging_used_bytes(), 0u);
  server.device().ReleaseAll();
  server.AwaitIdle();
}

TEST_F(CancellationTest, InRunStreamAnswersAtOnce) {
  TestServer server("run@1=hang");
  StreamClient stream(server.attention());
  stream.Send(StreamMessages(1, Small(), 4096));
  server.device().AwaitBatch(1);
  stream.SendCancel(1);
  EXPECT_EQ(stream.Await(1).status.code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(server.Metrics()[Cancelled("run")], 1);
  server.device().ReleaseAll();
  server.AwaitIdle();
}

TEST_F(CancellationTest, InSend) {
  ServerConfig config = TestServer::Config();
  config.staging_bytes = 32 << 20;
  TestServer server("", config);
  StreamClient stream(server.attention());
  // The first message of the answer is here, so the call is at this station; the others, several times what flow
  // control lets through to a client that does not read, are not.
  stream.Send(StreamMessages(1, Request(ManyRows(8192), rng_), 1 << 20));
  const std::optional<v1::AttendStreamResponse> first = stream.Read();
  ASSERT_TRUE(first.has_value());
  ASSERT_FALSE(first->has_status());
  stream.Cancel();
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::CANCELLED);
  server.AwaitMetric(Cancelled("send"), 1);
  server.AwaitIdle();
}

TEST_F(CancellationTest, BrokenStreamDropsAllItsCallsAndNoOthers) {
  TestServer server("run@1=hang");
  UnaryCall holder(server.attention(), Small());
  server.device().AwaitBatch(1);
  auto broken = std::make_unique<StreamClient>(server.attention());
  StreamClient other(server.attention());
  for (uint64_t id = 1; id <= 5; ++id) broken->Send(StreamMessages(id, Small(), 4096));
  broken->Send(StreamMessages(6, Small(), 64)[0]);  // never complete
  other.Send(StreamMessages(1, Small(), 4096));
  server.AwaitQueued(6);
  broken.reset();
  server.AwaitQueued(1);
  EXPECT_EQ(server.Metrics()[Cancelled("queue")], 5);
  server.device().ReleaseAll();
  EXPECT_EQ(other.Await(1).status.code(), grpc::StatusCode::OK);
  EXPECT_TRUE(holder.Await().ok());
  server.AwaitIdle();
}

TEST_F(CancellationTest, CancelOfAnUnknownIdIsPassedOver) {
  TestServer server;
  StreamClient stream(server.attention());
  stream.SendCancel(99);
  stream.Send(StreamMessages(1, Small(), 4096));
  EXPECT_EQ(stream.Await(1).status.code(), grpc::StatusCode::OK);
  stream.HalfClose();
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_TRUE(stream.answers().empty());
}

TEST_F(CancellationTest, CancelThatCarriesMoreIsRefused) {
  TestServer server;
  StreamClient stream(server.attention());
  const std::vector<v1::AttendStreamRequest> messages = StreamMessages(1, Small(), 512);
  stream.Send(messages[0]);
  v1::AttendStreamRequest both = messages[1];
  both.set_cancel(true);
  stream.Send(both);
  EXPECT_EQ(stream.Await(1).status.code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tessera::testing
