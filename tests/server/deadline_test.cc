// Deadlines at every station: the work is dropped where it is, counted there, and never launched late.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/attend_messages.h"
#include "tests/server/await.h"
#include "tests/server/stream_client.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

constexpr int kDeadlineExceeded = static_cast<int>(grpc::StatusCode::DEADLINE_EXCEEDED);

std::string Expired(const char* where) { return std::string("tessera_expired_total{where=\"") + where + "\"}"; }

class DeadlineTest : public ::testing::Test {
 protected:
  v1::AttendRequest Small() { return Request(Header({4}), rng_); }
  // Messages of a call with a timeout of its own.
  std::vector<v1::AttendStreamRequest> Timed(uint64_t id, absl::Duration timeout, size_t chunk_bytes = 4096) {
    std::vector<v1::AttendStreamRequest> messages = StreamMessages(id, Small(), chunk_bytes);
    messages[0].set_timeout_us(static_cast<uint64_t>(absl::ToInt64Microseconds(timeout)));
    return messages;
  }

  std::mt19937_64 rng_{41};
};

TEST_F(DeadlineTest, InReceive) {
  TestServer server;
  StreamClient stream(server.attention());
  stream.Send(Timed(1, absl::Seconds(10), 512)[0]);
  server.AwaitOccupancy([](const v1::Occupancy& occupancy) { return occupancy.staging_used_bytes() > 0; });
  server.clock().AwaitWaiter(server.clock().Now() + absl::Seconds(10));
  server.clock().Advance(absl::Seconds(10));
  EXPECT_EQ(stream.Await(1).status.code(), kDeadlineExceeded);
  EXPECT_EQ(server.Metrics()[Expired("receive")], 1);
  server.AwaitIdle();
}

TEST_F(DeadlineTest, InQueueAnswersWithoutAFreeSlot) {
  TestServer server("run@1=hang");
  StreamClient stream(server.attention());
  stream.Send(StreamMessages(1, Small(), 4096));
  server.device().AwaitBatch(1);
  stream.Send(Timed(2, absl::Seconds(10)));
  server.AwaitQueued(1);
  server.clock().Advance(absl::Seconds(10));
  EXPECT_EQ(stream.Await(2).status.code(), kDeadlineExceeded);
  server.AwaitQueued(0);
  EXPECT_EQ(server.Metrics()[Expired("queue")], 1);
  server.device().ReleaseAll();
  EXPECT_EQ(stream.Await(1).status.code(), 0);
  EXPECT_EQ(server.Metrics()["tessera_batches_total{kernel=\"cpu\"}"], 1) << "expired work was launched";
}

TEST_F(DeadlineTest, InQueueUnary) {
  ServerConfig config = TestServer::Config();
  config.engine.hang_timeout = absl::ZeroDuration();
  TestServer server("run@1=hang", config);
  UnaryCall running(server.attention(), Small());
  server.device().AwaitBatch(1);
  UnaryCall waiting(server.attention(), Small(), "", absl::Minutes(5));
  server.AwaitQueued(1);
  // The server's clock moves alone: what ends the call is the server, not the client.
  server.clock().Advance(absl::Minutes(6));
  Await("the waiting call's end", [&] {
    server.clock().Advance(absl::Milliseconds(10));
    return waiting.done();
  });
  EXPECT_EQ(waiting.Await().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(server.Metrics()[Expired("queue")], 1);
  server.device().ReleaseAll();
  EXPECT_TRUE(running.Await().ok());
  server.AwaitIdle();
  EXPECT_EQ(server.Metrics()["tessera_batches_total{kernel=\"cpu\"}"], 1);
}

TEST_F(DeadlineTest, BetweenRerunsOfABatch) {
  TestServer server("run@1=hang; run@2=internal; run@3=hang");
  StreamClient stream(server.attention());
  stream.Send(StreamMessages(1, Small(), 4096));
  server.device().AwaitBatch(1);
  stream.Send(StreamMessages(2, Small(), 4096));
  server.AwaitQueued(1);
  stream.Send(Timed(3, absl::Seconds(10)));
  server.AwaitQueued(2);
  server.device().Release(1);
  server.device().AwaitBatch(3);
  server.clock().Advance(absl::Seconds(10));
  EXPECT_EQ(stream.Await(3).status.code(), kDeadlineExceeded);
  EXPECT_EQ(server.Metrics()[Expired("run")], 1);
  server.device().ReleaseAll();
  EXPECT_EQ(stream.Await(2).status.code(), 0);
  server.AwaitIdle();
  EXPECT_EQ(server.Metrics()["tessera_batches_total{kernel=\"cpu\"}"], 3);
}

TEST_F(DeadlineTest, InRunAnswersAtTheDeadline) {
  TestServer server("run@1=hang");
  StreamClient stream(server.attention());
  stream.Send(Timed(1, absl::Seconds(10)));
  server.device().AwaitBatch(1);
  server.clock().Advance(absl::Seconds(10));
  EXPECT_EQ(stream.Await(1).status.code(), kDeadlineExceeded);
  EXPECT_EQ(server.Metrics()[Expired("run")], 1);
  server.device().ReleaseAll();
  server.AwaitIdle();
}

// In real time, for gRPC keeps it: long enough for a call to reach the device of a busy machine.
constexpr absl::Duration kRealDeadline = absl::Seconds(10);

// A client that keeps its own deadline cancels when it has passed, and that may reach the server before the server's
// own timer fires: the call counts as one or the other.
bool EndedInRun(const MetricsReader& metrics) {
  return metrics[Expired("run")] + metrics["tessera_cancelled_total{where=\"run\"}"] == 1;
}

TEST_F(DeadlineTest, ClientsDeadlineEndsARunningUnaryCall) {
  TestServer server("run@1=hang");
  UnaryCall running(server.attention(), Small(), "", kRealDeadline);
  server.device().AwaitBatch(1);
  EXPECT_EQ(running.Await().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  server.AwaitMetrics(EndedInRun);
  server.device().ReleaseAll();
  server.AwaitIdle();
}

TEST_F(DeadlineTest, StreamsDeadlineEndsItsCalls) {
  TestServer server("run@1=hang");
  StreamClient stream(server.attention(), "", kRealDeadline);
  stream.Send(StreamMessages(1, Small(), 4096));
  server.device().AwaitBatch(1);
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  server.AwaitMetrics(EndedInRun);
  server.device().ReleaseAll();
  server.AwaitIdle();
}

TEST_F(DeadlineTest, FarTimeoutsAreNoTimeouts) {
  TestServer server;
  StreamClient stream(server.attention());
  std::vector<v1::AttendStreamRequest> messages = StreamMessages(1, Small(), 4096);
  messages[0].set_timeout_us(~uint64_t{0});
  stream.Send(messages);
  EXPECT_EQ(stream.Await(1).status.code(), 0);
}

}  // namespace
}  // namespace tessera::testing
