// The client against a fake server over real sockets.
#include "client/cpp/tessera/client.h"

#include <atomic>
#include <deque>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/cpp/tessera/client_test_call.h"
#include "client/cpp/tessera/client_test_server.h"
#include "client/cpp/tessera/fake_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/wire/payload_ref.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Deed = FakeServer::Deed;
using Decision = FakeServer::Decision;

class ClientTransportTest : public ::testing::TestWithParam<Transport> {
 protected:
  ClientOptions Options() const {
    ClientOptions options = QuickRetries();
    options.transport = GetParam();
    return options;
  }

  FakeServer server_;
};

INSTANTIATE_TEST_SUITE_P(Transports, ClientTransportTest, ::testing::Values(Transport::kUnary, Transport::kStream),
                         [](const auto& param) { return param.param == Transport::kUnary ? "Unary" : "Stream"; });

TEST_P(ClientTransportTest, AnswersCallsOfEverySize) {
  const std::unique_ptr<Client> client = MakeClient(server_, Options());
  for (const uint32_t tokens : {0, 1, 7, 700, 2100, 40000, 300000}) {
    for (const bool return_lse : {false, true}) {
      TestCall call(tokens, tokens / 2 + 3, return_lse, tokens);
      const absl::StatusOr<AttendReply> reply = client->Attend(call.call());
      ASSERT_TRUE(reply.ok()) << reply.status() << " at " << tokens;
      EXPECT_EQ(reply->attempts, 1);
      EXPECT_EQ(reply->result.o_bytes(), tokens * 32);
      call.ExpectAnswered();
    }
  }
}

TEST_P(ClientTransportTest, CopiesEachAnswerByteOnce) {
  const std::unique_ptr<Client> client = MakeClient(server_, Options());
  TestCall call(100000, 10, true, 1);
  const uint64_t before = wire::PayloadBytesCopied();
  ASSERT_TRUE(client->Attend(call.call()).ok());
  EXPECT_EQ(wire::PayloadBytesCopied() - before, call.call().o.size() + call.call().lse.size());
}

TEST_P(ClientTransportTest, PassesErrorsOnWithoutRetry) {
  server_.SetJudge(Always(Deed::kFail, grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "head_dim is 7")));
  const std::unique_ptr<Client> client = MakeClient(server_, Options());
  TestCall call(5, 5, false, 1);
  const absl::Status status = client->Attend(call.call()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "head_dim is 7");
  EXPECT_EQ(server_.calls(), 1);
}

TEST_P(ClientTransportTest, RetriesUnavailableAndResourceExhaustedAndCancelledByTheServer) {
  for (const grpc::StatusCode code :
       {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::CANCELLED}) {
    FakeServer server;
    server.SetJudge(FailFirst(2, code, /*retry_after_ms=*/1));
    const std::unique_ptr<Client> client = MakeClient(server, Options());
    TestCall call(50000, 5, false, 1);
    const absl::StatusOr<AttendReply> reply = client->Attend(call.call());
    ASSERT_TRUE(reply.ok()) << reply.status();
    call.ExpectAnswered();
    EXPECT_EQ(server.calls(), 3);
    if (GetParam() == Transport::kStream) {
      EXPECT_EQ(reply->attempts, 3);
    }
  }
}

TEST_P(ClientTransportTest, CancelledByTheServerIsUnavailableInTheEnd) {
  server_.SetJudge(Always(Deed::kFail, grpc::Status(grpc::StatusCode::CANCELLED, "told to fail")));
  ClientOptions options = Options();
  options.retry.max_attempts = 2;
  const std::unique_ptr<Client> client = MakeClient(server_, options);
  TestCall call(5, 5, false, 1);
  const absl::Status status = client->Attend(call.call()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("told to fail"));
  EXPECT_EQ(server_.calls(), 2);
}

// gRPC tells calls that race with a server's shutdown CANCELLED.
TEST_P(ClientTransportTest, AServerThatShutsDownUnderACallIsUnavailable) {
  auto server = std::make_unique<FakeServer>();
  server->SetJudge(Always(Deed::kHold));
  ClientOptions options = Options();
  options.retry.max_attempts = 1;
  const std::unique_ptr<Client> client = MakeClient(*server, options);
  TestCall call(5, 5, false, 1);
  absl::Notification done;
  absl::Status status;
  client->AttendAsync(call.call(), [&](absl::StatusOr<AttendReply> reply) {
    status = reply.status();
    done.Notify();
  });
  server->AwaitHeld(1);
  server.reset();
  done.WaitForNotification();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

TEST(ClientGoodbyeTest, ClosesItsStreamsWithoutCancellingThem) {
  FakeServer server;
  server.SetJudge(FailFirst(1, grpc::StatusCode::UNAVAILABLE));  // which retires the first stream
  ClientOptions options = QuickRetries();
  options.connections = 1;
  std::unique_ptr<Client> client = MakeClient(server, options);
  TestCall call(5, 5, false, 1);
  ASSERT_TRUE(client->Attend(call.call()).ok());
  EXPECT_EQ(server.AwaitStreamEnds(1), 0);
  client.reset();
  EXPECT_EQ(server.AwaitStreamEnds(2), 0);
}

TEST(ClientGoodbyeTest, CancelsAStreamThatTheServerDoesNotEnd) {
  FakeServer server;
  server.StopReading();
  ClientOptions options = QuickRetries();
  options.connections = 1;
  std::unique_ptr<Client> client = MakeClient(server, options);
  TestCall call(5, 5, false, 1);
  const CallHandle handle = client->AttendAsync(call.call(), [](const absl::StatusOr<AttendReply>&) {});
  server.AwaitStreams(1);
  handle.Cancel();
  client.reset();
  EXPECT_EQ(server.AwaitStreamEnds(1), 1);
}

TEST(ClientUnaryTest, MessageTooLargeForTheTransportIsSentOnce) {
  FakeServer server;
  // As gRPC refuses it: without pushback.
  server.SetJudge(Always(Deed::kFail, grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "Received message larger")));
  ClientOptions options = QuickRetries();
  options.transport = Transport::kUnary;
  const std::unique_ptr<Client> client = MakeClient(server, options);
  TestCall call(5, 5, false, 1);
  EXPECT_EQ(client->Attend(call.call()).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(server.calls(), 1);
}

TEST_P(ClientTransportTest, GivesUpAfterTheLastAttempt) {
  server_.SetJudge(FailFirst(1000, grpc::StatusCode::RESOURCE_EXHAUSTED, /*retry_after_ms=*/1));
  ClientOptions options = Options();
  options.retry.max_attempts = 3;
  const std::unique_ptr<Client> client = MakeClient(server_, options);
  TestCall call(5, 5, false, 1);
  EXPECT_EQ(client->Attend(call.call()).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(server_.calls(), 3);
}

TEST_P(ClientTransportTest, WaitsAsLongAsTheServerPushesBack) {
  constexpr int kPushbackMs = 60;  // far above the policy's own backoff
  server_.SetJudge(FailFirst(1, grpc::StatusCode::RESOURCE_EXHAUSTED, kPushbackMs));
  const std::unique_ptr<Client> client = MakeClient(server_, Options());
  TestCall call(5, 5, false, 1);
  const absl::Time start = absl::Now();
  ASSERT_TRUE(client->Attend(call.call()).ok());
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(kPushbackMs));
  EXPECT_EQ(server_.calls(), 2);
}

TEST_P(ClientTransportTest, CancelEndsTheCallHereAndThere) {
  server_.SetJudge(Always(Deed::kHold));
  const std::unique_ptr<Client> client = MakeClient(server_, Options());
  for (const uint32_t tokens : {5, 20000}) {
    TestCall call(tokens, 5, false, 1);
    absl::Notification done;
    absl::Status status;
    const CallHandle handle = client->AttendAsync(call.call(), [&](absl::StatusOr<AttendReply> reply) {
      status = reply.status();
      done.Notify();
    });
    server_.AwaitHeld(tokens == 5 ? 1 : 2);
    const absl::Time start = absl::Now();
    handle.Cancel();
    handle.Cancel();
    done.WaitForNotification();
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
    EXPECT_LT(absl::Now() - start, ClientOptions().stall_timeout)
        << "gRPC must have let go of the call's memory by itself";
    server_.AwaitCancellations(tokens == 5 ? 1 : 2);
    handle.Cancel();
  }
}

TEST_P(ClientTransportTest, DeadlineEndsTheCallHereAndThere) {
  server_.SetJudge(Always(Deed::kHold));
  const std::unique_ptr<Client> client = MakeClient(server_, Options());
  TestCall call(5, 5, false, 1);
  call.call().timeout = absl::Seconds(3);  // long enough to reach the server of a busy machine
  EXPECT_EQ(client->Attend(call.call()).status().code(), absl::StatusCode::kDeadlineExceeded);
  server_.AwaitCancellations(1);
}

TEST_P(ClientTransportTest, DefaultTimeoutCountsWhereTheCallHasNone) {
  server_.SetJudge(Always(Deed::kHold));
  ClientOptions options = Options();
  options.default_timeout = absl::Milliseconds(30);
  const std::unique_ptr<Client> client = MakeClient(server_, options);
  TestCall call(5, 5, false, 1);
  EXPECT_EQ(client->Attend(call.call()).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_P(ClientTransportTest, NoRetryIsMadeThatCannotStartBeforeTheDeadline) {
  server_.SetJudge(FailFirst(1, grpc::StatusCode::RESOURCE_EXHAUSTED, 60000));
  const std::unique_ptr<Client> client = MakeClient(server_, Options());
  TestCall call(5, 5, false, 1);
  call.call().timeout = absl::Seconds(10);
  const absl::Time start = absl::Now();
  EXPECT_FALSE(client->Attend(call.call()).ok());
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
  EXPECT_EQ(server_.calls(), 1);
}

TEST_P(ClientTransportTest, SendsTheTenant) {
  ClientOptions options = Options();
  options.tenant = "team-a";
  const std::unique_ptr<Client> client = MakeClient(server_, options);
  TestCall call(5, 5, false, 1);
  ASSERT_TRUE(client->Attend(call.call()).ok());
  EXPECT_THAT(server_.tenants(), ElementsAre("team-a"));
}

TEST_P(ClientTransportTest, AServerThatIsNotThereIsUnavailable) {
  auto server = std::make_unique<FakeServer>();
  const std::unique_ptr<Client> client = MakeClient(*server, Options());
  server.reset();
  TestCall call(5, 5, false, 1);
  EXPECT_EQ(client->Attend(call.call()).status().code(), absl::StatusCode::kUnavailable);
}

TEST_P(ClientTransportTest, DestructionEndsTheCallsInFlight) {
  server_.SetJudge(Always(Deed::kHold));
  std::unique_ptr<Client> client = MakeClient(server_, Options());
  std::deque<TestCall> calls;
  std::atomic<int> cancelled{0};
  constexpr int kCalls = 4;
  for (int i = 0; i < kCalls; ++i) {
    calls.emplace_back(i % 2 == 0 ? 5 : 50000, 5, false, i);
    client->AttendAsync(calls.back().call(), [&](absl::StatusOr<AttendReply> reply) {
      cancelled += reply.status().code() == absl::StatusCode::kCancelled;
    });
  }
  if (GetParam() == Transport::kStream) server_.AwaitHeld(kCalls);
  client.reset();
  EXPECT_EQ(cancelled, kCalls);
}

TEST_P(ClientTransportTest, ManyThreadsShareAClient) {
  server_.SetAnswerChunk(10000);
  server_.SetJudge([](const FakeServer::Call& call) {  // every fifth fails once more
    Decision decision;
    if (call.number % 5 == 0) {
      decision.deed = Deed::kFail;
      decision.status = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "told to fail");
      decision.retry_after_ms = 1;
    }
    return decision;
  });
  ClientOptions options = Options();
  options.chunk_bytes = 20000;
  options.stripe_threshold_bytes = 100000;
  options.retry.max_attempts = 5;
  const std::unique_ptr<Client> client = MakeClient(server_, options);
  constexpr int kThreads = 6, kCalls = 30;
  std::atomic<int> answered{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 rng(t);
      for (int i = 0; i < kCalls; ++i) {
        TestCall call(rng() % 6000, rng() % 600, i % 2 == 0, rng());
        const absl::StatusOr<AttendReply> reply = client->Attend(call.call());
        if (reply.ok()) {
          call.ExpectAnswered();
          ++answered;
        } else {
          EXPECT_EQ(reply.status().code(), absl::StatusCode::kResourceExhausted) << reply.status();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(answered, kThreads * kCalls * 9 / 10);
}

TEST(ClientTest, RefusesCallsWhoseSpansDoNotFit) {
  FakeServer server;
  const std::unique_ptr<Client> client = MakeClient(server, {});
  const auto refused = [&](auto change, const std::string& expected) {
    TestCall call(5, 5, true, 1);
    change(call.call());
    const absl::Status status = client->Attend(call.call()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(expected));
  };
  refused([](AttendCall& call) { call.o.remove_suffix(1); }, "o has 159 bytes");
  refused([](AttendCall& call) { call.v.remove_suffix(1); }, "v has 159 bytes");
  refused([](AttendCall& call) { call.lse = {}; }, "lse has 0 bytes, expected 40");
  refused([](AttendCall& call) { call.header.mutable_options()->set_return_lse(false); }, "lse has 40 bytes");
  refused([](AttendCall& call) { call.header.set_q_lengths(0, 0xffffffff); }, "for 4294967295 tokens");
  refused([](AttendCall& call) { call.header.mutable_kv_lengths()->Resize(2 << 20, 1); }, "above the limit");
  // More or less than the header says: of a stream, the server would wait for the rest.
  refused([](AttendCall& call) { call.header.add_q_lengths(1); }, "q has 160 bytes for 6 tokens");
  refused([](AttendCall& call) { call.header.set_kv_lengths(0, 4); }, "k has 160 bytes for 4 tokens");
  refused(
      [](AttendCall& call) {
        call.header.clear_kv_lengths();
        call.header.set_q_lengths(0, 6);
      },
      "q has 160 bytes");
  refused([](AttendCall& call) { call.header.set_kv_heads(1); }, "of 1 heads");
  refused([](AttendCall& call) { call.header.set_head_dim(16); }, "of 16 elements");
  refused([](AttendCall& call) { call.header.set_dtype(v1::DATA_TYPE_FLOAT32); }, "elements of 4 bytes");
  refused(
      [](AttendCall& call) {
        call.header.set_q_lengths(0, 1u << 31);  // the product overflows
        call.header.add_q_lengths(5);
        call.header.set_q_heads(1u << 31);
      },
      "for 2147483653 tokens");
  EXPECT_EQ(server.calls(), 0);
}

TEST(ClientTest, RefusesUnaryCallsAboveTheLimit) {
  FakeServer server;
  ClientOptions options;
  options.transport = Transport::kUnary;
  options.unary_limit_bytes = 100;
  const std::unique_ptr<Client> client = MakeClient(server, options);
  TestCall call(5, 5, false, 1);
  const absl::Status status = client->Attend(call.call()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("unary_limit_bytes = 100"));
}

TEST(ClientTest, RefusesOptionsOutOfRange) {
  const auto refused = [](auto change) {
    ClientOptions options;
    change(options);
    EXPECT_EQ(Client::Connect("localhost:1", options).status().code(), absl::StatusCode::kInvalidArgument);
  };
  refused([](ClientOptions& options) { options.connections = 0; });
  refused([](ClientOptions& options) { options.chunk_bytes = 0; });
  refused([](ClientOptions& options) { options.chunk_bytes = int64_t{2} << 30; });
  refused([](ClientOptions& options) { options.stripe_threshold_bytes = 0; });
  refused([](ClientOptions& options) { options.unary_limit_bytes = int64_t{4} << 30; });
  refused([](ClientOptions& options) { options.retry.max_attempts = 0; });
  refused([](ClientOptions& options) { options.retry.initial_backoff = absl::ZeroDuration(); });
  refused([](ClientOptions& options) { options.retry.backoff_multiplier = std::numeric_limits<double>::quiet_NaN(); });
  for (const double multiplier : {0.5, 101.0, std::numeric_limits<double>::infinity()}) {
    refused([multiplier](ClientOptions& options) { options.retry.backoff_multiplier = multiplier; });
  }
  for (const absl::Duration backoff : {absl::Nanoseconds(1), absl::Hours(2), absl::InfiniteDuration()}) {
    refused([backoff](ClientOptions& options) { options.retry.initial_backoff = backoff; });
    refused([backoff](ClientOptions& options) { options.retry.max_backoff = backoff; });
  }
  for (const absl::Duration none : {absl::ZeroDuration(), -absl::Seconds(1), -absl::InfiniteDuration()}) {
    refused([none](ClientOptions& options) { options.default_timeout = none; });
    refused([none](ClientOptions& options) { options.keepalive_time = none; });
    refused([none](ClientOptions& options) { options.keepalive_timeout = none; });
    refused([none](ClientOptions& options) { options.stall_timeout = none; });
  }
  for (const char* tenant : {"a\nb",
                             "gr\xc3\xb6\xc3\x9f"
                             "er",
                             "\x7f"}) {
    refused([tenant](ClientOptions& options) { options.tenant = tenant; });
  }
}

TEST(ClientTest, TakesTheLongestTimes) {
  FakeServer server;
  ClientOptions options;
  options.keepalive_time = options.keepalive_timeout = options.stall_timeout = absl::InfiniteDuration();
  options.retry.initial_backoff = options.retry.max_backoff = absl::Hours(1);
  options.retry.backoff_multiplier = 100;
  for (const Transport transport : {Transport::kUnary, Transport::kStream}) {
    options.transport = transport;
    TestCall call(5, 5, false, 1);
    EXPECT_EQ(MakeClient(server, options)->Attend(call.call()).status(), absl::OkStatus());
  }
}

TEST(ClientTest, RefusesPortsThatWouldBeReadAsOthers) {
  for (const char* target : {"localhost:65536", "127.0.0.1:70000", "dns:///a:99999999999999999999",
                             "ipv4:1.2.3.4:65536", "ipv4:1.2.3.4:65536,1.2.3.5:1", "127.0.0.1:-1", "127.0.0.1:+1",
                             "127.0.0.1:-65536", "dns:///a:-1", "[::1]:-1"}) {
    EXPECT_EQ(Client::Connect(target, {}).status().code(), absl::StatusCode::kInvalidArgument) << target;
  }
  for (const char* target : {"localhost:65535", "localhost", "localhost:http", "unix:/tmp/a:70000", "unix:/tmp/a b:-1",
                             "[::1]:7171", "a-1:1"}) {
    EXPECT_EQ(Client::Connect(target, {}).status(), absl::OkStatus()) << target;
  }
}

TEST(ClientTest, AsksForFactsPlansAndHealth) {
  auto server = std::make_unique<FakeServer>();
  ClientOptions options;
  options.retry.max_attempts = 1;
  const std::unique_ptr<Client> client = MakeClient(*server, options);

  const absl::StatusOr<v1::GetServerInfoResponse> info = client->GetServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->version(), "1.2.3");

  v1::PlanTilesRequest request;
  request.set_tile(64);
  const absl::StatusOr<v1::PlanTilesResponse> plan = client->PlanTiles(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->tile(), 64u);
  request.set_tile(1);
  EXPECT_EQ(client->PlanTiles(request).status(), absl::InvalidArgumentError("tile is 1"));
  request.set_tile(2);
  EXPECT_EQ(client->PlanTiles(request).status().code(), absl::StatusCode::kUnavailable) << "cancelled by the server";

  EXPECT_EQ(client->CheckHealth(), absl::OkStatus());
  EXPECT_EQ(client->CheckHealth("no.such.service").code(), absl::StatusCode::kNotFound);
  server.reset();
  EXPECT_EQ(client->CheckHealth().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tessera
