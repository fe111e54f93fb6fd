// Calls over streams: chunks, stripes, pipelining, and streams that break.
#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "client/cpp/tessera/client.h"
#include "client/cpp/tessera/client_test_call.h"
#include "client/cpp/tessera/client_test_server.h"
#include "client/cpp/tessera/fake_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using Deed = FakeServer::Deed;
using Decision = FakeServer::Decision;

class ClientStreamTest : public ::testing::Test {
 protected:
  FakeServer server_;
};

TEST_F(ClientStreamTest, CutsLargeCallsIntoChunksOnOneConnection) {
  ClientOptions options;
  options.connections = 1;
  options.chunk_bytes = 1000;
  options.stripe_threshold_bytes = 1;
  server_.SetAnswerChunk(777);
  const std::unique_ptr<Client> client = MakeClient(server_, options);
  TestCall call(3000, 1000, true, 1);
  const absl::StatusOr<AttendReply> reply = client->Attend(call.call());
  ASSERT_TRUE(reply.ok()) << reply.status();
  call.ExpectAnswered();
  EXPECT_EQ(reply->connections, 1);
  EXPECT_EQ(server_.streams(), 1);
}

TEST_F(ClientStreamTest, StripesLargeCallsOverConnections) {
  ClientOptions options;
  options.connections = 3;
  options.chunk_bytes = 5000;
  options.stripe_threshold_bytes = 100000;
  server_.SetAnswerChunk(7777);
  int connections_seen = 0;
  server_.SetJudge([&](const FakeServer::Call& call) {
    connections_seen = call.connections;
    return Decision();
  });
  const std::unique_ptr<Client> client = MakeClient(server_, options);
  TestCall small(1000, 100, true, 1);
  ASSERT_TRUE(client->Attend(small.call()).ok());
  EXPECT_EQ(connections_seen, 1);
  for (int i = 0; i < 5; ++i) {
    TestCall large(5001, 1000, true, 1);
    const absl::StatusOr<AttendReply> reply = client->Attend(large.call());
    ASSERT_TRUE(reply.ok()) << reply.status();
    large.ExpectAnswered();
    EXPECT_EQ(reply->connections, 3);
    EXPECT_EQ(connections_seen, 3);
  }
  EXPECT_EQ(server_.peers().size(), 3u);
  EXPECT_EQ(server_.streams(), 3);
}

TEST_F(ClientStreamTest, PipelinesCallsAndTakesAnswersInAnyOrder) {
  server_.SetJudge(Always(Deed::kHold));
  ClientOptions options;
  options.connections = 1;
  const std::unique_ptr<Client> client = MakeClient(server_, options);
  constexpr int kCalls = 50;
  std::deque<TestCall> calls;
  std::vector<int> order;  // touched by one stream's reader only
  absl::BlockingCounter left(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    calls.emplace_back(10 + i, 5, true, i);
    client->AttendAsync(calls.back().call(), [&, i](absl::StatusOr<AttendReply> reply) {
      EXPECT_TRUE(reply.ok()) << reply.status();
      order.push_back(i);
      left.DecrementCount();
    });
  }
  server_.AwaitHeld(kCalls);
  server_.ReleaseHeldInReverse();
  left.Wait();
  for (const TestCall& call : calls) call.ExpectAnswered();
  for (int i = 0; i < kCalls; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], kCalls - 1 - i);
  EXPECT_EQ(server_.streams(), 1);
}

TEST_F(ClientStreamTest, OpensAnotherStreamWhereOneIsFull) {
  server_.SetJudge(Always(Deed::kHold));
  ClientOptions options;
  options.connections = 1;
  const std::unique_ptr<Client> client = MakeClient(server_, options);
  constexpr int kCalls = 450;  // three streams of at most 200
  std::deque<TestCall> calls;
  absl::BlockingCounter left(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    calls.emplace_back(2, 2, false, i);
    client->AttendAsync(calls.back().call(), [&](absl::StatusOr<AttendReply> reply) {
      EXPECT_TRUE(reply.ok()) << reply.status();
      left.DecrementCount();
    });
  }
  server_.AwaitHeld(kCalls);
  EXPECT_EQ(server_.streams(), 3);
  EXPECT_EQ(server_.peers().size(), 1u);
  server_.ReleaseHeldInReverse();
  left.Wait();
  for (const TestCall& call : calls) call.ExpectAnswered();
}

TEST_F(ClientStreamTest, TellsTheServerTheTimeLeft) {
  std::atomic<uint64_t> timeout_us = 0;  // what a socket orders, ThreadSanitizer does not see
  server_.SetJudge([&](const FakeServer::Call& call) {
    timeout_us = call.timeout_us;
    return Decision();
  });
  const std::unique_ptr<Client> client = MakeClient(server_, {});
  TestCall call(5, 5, false, 1);
  ASSERT_TRUE(client->Attend(call.call()).ok());
  EXPECT_EQ(timeout_us, 0u);
  call.call().timeout = absl::Seconds(100);
  ASSERT_TRUE(client->Attend(call.call()).ok());
  EXPECT_GT(timeout_us, 0u);
  EXPECT_LE(timeout_us, 100'000'000u);
}

TEST_F(ClientStreamTest, ABrokenStreamEndsItsCallsAndTheNextCallOpensAnother) {
  server_.SetJudge(Always(Deed::kHold));
  ClientOptions options;
  options.connections = 1;
  options.retry.max_attempts = 1;
  const std::unique_ptr<Client> client = MakeClient(server_, options);
  std::deque<TestCall> calls;
  std::vector<absl::StatusCode> codes;
  absl::BlockingCounter left(3);
  const auto start = [&](uint32_t tokens) {
    calls.emplace_back(tokens, 5, false, 1);
    client->AttendAsync(calls.back().call(), [&](absl::StatusOr<AttendReply> reply) {
      codes.push_back(reply.status().code());
      left.DecrementCount();
    });
  };
  start(5);
  start(30000);
  server_.AwaitHeld(2);
  server_.SetJudge(Always(Deed::kBreakStream, grpc::Status(grpc::StatusCode::INTERNAL, "told to break")));
  start(6);
  left.Wait();
  EXPECT_THAT(codes, Each(absl::StatusCode::kUnavailable));

  server_.SetJudge({});
  TestCall call(5, 5, false, 1);
  ASSERT_TRUE(client->Attend(call.call()).ok());
  EXPECT_EQ(server_.streams(), 2);
}

TEST_F(ClientStreamTest, ACallOnABrokenStreamIsTriedAgain) {
  server_.SetJudge([](const FakeServer::Call& call) {
    Decision decision;
    if (call.number <= 2) decision.deed = Deed::kBreakStream;
    if (call.number == 2) decision.status = grpc::Status(grpc::StatusCode::CANCELLED, "as by a shutdown");
    return decision;
  });
  ClientOptions options = QuickRetries();
  options.stripe_threshold_bytes = 1000;
  options.chunk_bytes = 1000;
  const std::unique_ptr<Client> client = MakeClient(server_, options);
  TestCall call(200, 200, true, 1);
  const absl::StatusOr<AttendReply> reply = client->Attend(call.call());
  ASSERT_TRUE(reply.ok()) << reply.status();
  call.ExpectAnswered();
  EXPECT_EQ(reply->attempts, 3);
}

TEST_F(ClientStreamTest, AServerThatTurnsStreamsAwayIsHeard) {
  server_.SetJudge(Always(Deed::kBreakStream, grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "not you")));
  const std::unique_ptr<Client> client = MakeClient(server_, QuickRetries());
  TestCall call(5, 5, false, 1);
  const absl::Status status = client->Attend(call.call()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(status.message(), "not you");
}

// A draining server answers UNAVAILABLE on a stream that stays open; the retry must not go there again.
TEST_F(ClientStreamTest, UnavailableMovesTheNextCallToAnotherStream) {
  server_.SetJudge(FailFirst(1, grpc::StatusCode::UNAVAILABLE));
  ClientOptions options = QuickRetries();
  options.connections = 1;
  const std::unique_ptr<Client> client = MakeClient(server_, options);
  TestCall call(5, 5, false, 1);
  ASSERT_TRUE(client->Attend(call.call()).ok());
  EXPECT_EQ(server_.streams(), 2);
}

TEST_F(ClientStreamTest, ACallEndsThoughTheServerHasStoppedReading) {
  server_.StopReading();
  ClientOptions options;
  options.stall_timeout = absl::Milliseconds(20);
  const std::unique_ptr<Client> client = MakeClient(server_, options);
  TestCall call(1 << 20, 5, false, 1);  // 32 MiB: more than the sockets and windows hold
  call.call().timeout = absl::Milliseconds(50);
  EXPECT_EQ(client->Attend(call.call()).status().code(), absl::StatusCode::kDeadlineExceeded);
}

v1::AttendStreamResponse Message(int64_t o_bytes, int64_t offset, int64_t payload_bytes, bool last) {
  v1::AttendStreamResponse message;
  if (o_bytes >= 0) message.mutable_result()->set_o_bytes(static_cast<uint64_t>(o_bytes));
  message.set_payload_offset(static_cast<uint64_t>(offset));
  message.set_payload(std::string(static_cast<size_t>(payload_bytes), 'x'));
  if (last) message.mutable_status();
  return message;
}

TEST_F(ClientStreamTest, BreachesOfTheProtocolAreInternalErrorsAndWriteNothingOutside) {
  const std::vector<std::pair<std::vector<v1::AttendStreamResponse>, std::string>> cases = {
      {{Message(-1, 0, 160, true)}, "ahead of its result"},
      {{Message(161, 0, 161, true)}, "161 bytes of o, expected 160"},
      {{Message(160, 0, 161, true)}, "161 bytes at offset 0"},
      {{Message(160, 0, 100, false), Message(-1, 100, 61, true)}, "61 bytes at offset 100"},
      {{Message(160, 0, 100, false), Message(-1, 50, 60, true)}, "60 bytes at offset 50"},
      {{Message(160, -1, 10, false)}, "10 bytes at offset 18446744073709551615"},
      {{Message(160, 0, 159, true)}, "before all of it has come"},
      {{Message(-1, 0, 0, true)}, "before all of it has come"},
  };
  ClientOptions options;
  options.connections = 1;
  const std::unique_ptr<Client> client = MakeClient(server_, options);
  for (const auto& [messages, expected] : cases) {
    server_.SetJudge([&messages = messages](const FakeServer::Call&) {
      Decision decision;
      decision.deed = Deed::kSend;
      decision.messages = messages;
      return decision;
    });
    TestCall call(5, 5, false, 1);
    const absl::Status status = client->Attend(call.call()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(status.message(), HasSubstr(expected));
  }
  server_.SetJudge({});
  TestCall call(5, 5, false, 1);
  EXPECT_TRUE(client->Attend(call.call()).ok()) << "the stream must have survived";
  EXPECT_EQ(server_.streams(), 1);
}

TEST_F(ClientStreamTest, AnswersToCallsThatNobodyWaitsForAreDropped) {
  server_.SetJudge(Always(Deed::kHold));
  ClientOptions options;
  options.connections = 1;
  const std::unique_ptr<Client> client = MakeClient(server_, options);
  TestCall dropped(5, 5, false, 1);
  absl::Notification done;
  const CallHandle handle = client->AttendAsync(dropped.call(), [&](const absl::StatusOr<AttendReply>& reply) {
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kCancelled);
    done.Notify();
  });
  server_.AwaitHeld(1);
  handle.Cancel();
  done.WaitForNotification();
  server_.ReleaseHeldInReverse();  // too late
  server_.SetJudge({});
  TestCall call(5, 5, false, 2);
  ASSERT_TRUE(client->Attend(call.call()).ok());
  call.ExpectAnswered();
  EXPECT_EQ(server_.streams(), 1);
}

}  // namespace
}  // namespace tessera
