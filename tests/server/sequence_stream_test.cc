// ExtendStream over a real socket: many steps under way on one stream.
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/random/seed.h"
#include "tests/server/await.h"
#include "tests/server/raw_rpc.h"
#include "tests/server/sequence_client.h"
#include "tests/server/step_stream.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kTolerance = 1e-5;
constexpr absl::Duration kDrain = absl::Seconds(20);  // nothing else waits so long

CacheProfile Profile() {
  return {.name = "small",
          .layers = 2,
          .kv_heads = 2,
          .head_dim = 16,
          .dtype = DType::kFloat32,
          .page_tokens = 8,
          .pages = 64,
          .max_tokens = 200,
          .max_sequences = 16};
}

ServerConfig Config() {
  ServerConfig config = TestServer::Config();
  config.kv_profiles = {Profile()};
  return config;
}

class SequenceStreamTest : public ::testing::Test {
 protected:
  SequenceClient Client(TestServer& server) { return SequenceClient(server.channel(), Profile(), "a", seed_++); }
  static double UsedPages(const TestServer& server) {
    return server.Metrics()["tessera_kv_pages{profile=\"small\",state=\"used\"}"];
  }

  uint64_t seed_ = RandomSeed();
};

TEST_F(SequenceStreamTest, StepsThatAreSentAheadAreAsDefined) {
  TestServer server("", Config());
  SequenceClient client = Client(server);
  StepStream stream(client.stub());
  std::vector<KnownSequence> sequences;
  for (int i = 0; i < 4; ++i) sequences.push_back(client.Create());
  std::vector<std::pair<std::vector<KnownEntry>, v1::ExtendRequest>> sent;
  for (int step = 0; step < 12; ++step) {
    for (uint32_t layer = 0; layer < 2; ++layer) {
      for (KnownSequence& sequence : sequences) {
        const uint32_t tokens = step == 0 ? 10 : 1;
        const std::vector<KnownEntry> entries = {{&sequence, layer, tokens, tokens}};
        sent.emplace_back(entries, client.Request(entries));
        ASSERT_TRUE(stream.Send(sent.size() - 1, sent.back().second));
      }
    }
  }
  stream.HalfClose();
  for (size_t id = 0; id < sent.size(); ++id) {
    const v1::ExtendStreamResponse answer = stream.Await(id);
    ASSERT_EQ(answer.status().code(), 0) << answer.status().message();
    client.Note(sent[id].first, sent[id].second);
    EXPECT_LT(client.Error(sent[id].first, sent[id].second, ToResponse(answer)), kTolerance) << id;
  }
  EXPECT_TRUE(stream.Finish().ok());
  server.AwaitIdle();
}

// The end of the messages comes at any point of a call's end, by chance: a gap of microseconds is met in most runs.
TEST_F(SequenceStreamTest, AStreamThatIsHalfClosedAnswersEveryCallBeforeItEnds) {
  TestServer server("", Config());
  SequenceClient client = Client(server);
  KnownSequence sequence = client.Create();
  ASSERT_LT(client.Extend({{&sequence, 0, 1, 1}}), kTolerance);
  const v1::ExtendRequest request = client.Request({{&sequence, 0, 1, 0}});
  std::mt19937_64 rng(seed_);
  absl::Duration usual = absl::Milliseconds(1);  // from a message to its answer, at the client
  for (uint64_t timeout_us : {uint64_t{0}, uint64_t{10'000'000}}) {
    for (int round = 0; round < 1500; ++round) {
      StepStream stream(client.stub());
      const absl::Time sent = absl::Now();
      ASSERT_TRUE(stream.Send(7, request, timeout_us));
      if (round % 10 == 0) {
        ASSERT_EQ(stream.Await(7).status().code(), 0);
        usual = 0.8 * usual + 0.2 * (absl::Now() - sent);
        continue;
      }
      const absl::Time close = sent + usual * (0.3 + 0.7 * static_cast<double>(rng() % 1000) / 1000);
      while (absl::Now() < close) {
      }
      stream.HalfClose();
      ASSERT_TRUE(stream.Finish().ok());
      ASSERT_THAT(stream.order(), ElementsAre(7)) << "round " << round;
    }
  }
}

TEST_F(SequenceStreamTest, CallsOfTwoStreamsShareABatch) {
  TestServer server("run@1=hang", Config());
  SequenceClient client = Client(server);
  StepStream one(client.stub()), two(client.stub());
  KnownSequence holder = client.Create(), a = client.Create(), b = client.Create();
  ASSERT_TRUE(one.Send(1, client.Request({{&holder}})));
  server.device().AwaitBatch(1);
  ASSERT_TRUE(one.Send(2, client.Request({{&a}})));
  ASSERT_TRUE(two.Send(1, client.Request({{&b}})));
  server.AwaitQueued(2);
  server.device().Release(1);
  EXPECT_EQ(one.Await(2).result().timing().batch_requests(), 2u);
  EXPECT_EQ(two.Await(1).result().timing().batch_requests(), 2u);
}

TEST_F(SequenceStreamTest, ABadCallFailsAlone) {
  TestServer server("", Config());
  SequenceClient client = Client(server);
  StepStream stream(client.stub());
  KnownSequence a = client.Create(), gone = client.Create();
  client.Release({gone.handle});
  v1::ExtendRequest short_q = client.Request({{&a}});
  short_q.mutable_q()->pop_back();
  ASSERT_TRUE(stream.Send(1, short_q));
  ASSERT_TRUE(stream.Send(2, client.Request({{&gone}})));
  v1::ExtendStreamRequest headless;
  headless.set_id(3);
  ASSERT_TRUE(stream.Send(headless));
  ASSERT_TRUE(stream.Send(4, client.Request({{&a, 0, 100, 100}, {&gone}})));
  ASSERT_TRUE(stream.Send(5, client.Request({{&a, 0, 1, 201}})));
  ASSERT_TRUE(stream.SendCancel(77));
  const std::vector<KnownEntry> good = {{&a, 0, 2, 2}};
  const v1::ExtendRequest request = client.Request(good);
  ASSERT_TRUE(stream.Send(6, request));
  EXPECT_EQ(stream.Await(1).status().code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(stream.Await(2).status().code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(stream.Await(3).status().message(), HasSubstr("header"));
  EXPECT_EQ(stream.Await(4).status().code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(stream.Await(5).status().code(), grpc::StatusCode::INVALID_ARGUMENT);
  const v1::ExtendStreamResponse answer = stream.Await(6);
  ASSERT_EQ(answer.status().code(), 0) << answer.status().message();
  client.Note(good, request);
  EXPECT_LT(client.Error(good, request, ToResponse(answer)), kTolerance);
}

TEST_F(SequenceStreamTest, MalformedMessageEndsTheStream) {
  TestServer server("", Config());
  std::string response;
  EXPECT_EQ(
      RawCall(server.channel(), "/tessera.v1.SequenceService/ExtendStream", "\x0a\xff\xff", &response).error_code(),
      grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(SequenceStreamTest, CancelTimeoutAndReuseEndCallsThatWaitForTheirTurn) {
  TestServer server("run@1=hang", Config());
  SequenceClient client = Client(server);
  StepStream stream(client.stub());
  KnownSequence a = client.Create();
  const std::vector<KnownEntry> entries = {{&a}};
  const v1::ExtendRequest first = client.Request(entries), last = client.Request(entries);
  ASSERT_TRUE(stream.Send(1, first));
  server.device().AwaitBatch(1);
  ASSERT_TRUE(stream.Send(2, client.Request(entries)));
  ASSERT_TRUE(stream.Send(3, client.Request(entries), /*timeout_us=*/1'000'000));
  ASSERT_TRUE(stream.Send(4, client.Request(entries)));
  ASSERT_TRUE(stream.Send(5, last));
  ASSERT_TRUE(stream.SendCancel(2));
  ASSERT_TRUE(stream.Send(4, client.Request(entries)));
  EXPECT_EQ(stream.Await(2).status().code(), grpc::StatusCode::CANCELLED);
  const v1::ExtendStreamResponse reused = stream.Await(4);
  EXPECT_EQ(reused.status().code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(reused.status().message(), HasSubstr("id: 4"));
  server.clock().Advance(absl::Seconds(2));
  EXPECT_EQ(stream.Await(3).status().code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  server.AwaitMetric("tessera_turn_requests", 1);
  server.device().Release(1);
  const v1::ExtendStreamResponse one = stream.Await(1), five = stream.Await(5);
  ASSERT_EQ(one.status().code(), 0) << one.status().message();
  ASSERT_EQ(five.status().code(), 0) << five.status().message();
  client.Note(entries, first);
  client.Note(entries, last);
  EXPECT_LT(client.Error(entries, last, ToResponse(five)), kTolerance);
}

TEST_F(SequenceStreamTest, CallsBeyondTheStreamsLimitAreRefused) {
  ServerConfig config = Config();
  config.attend.max_stream_calls = 2;
  TestServer server("run@1=hang", config);
  SequenceClient client = Client(server);
  StepStream stream(client.stub());
  KnownSequence a = client.Create();
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(stream.Send(id, client.Request({{&a}})));
  const v1::ExtendStreamResponse refused = stream.Await(3);
  EXPECT_EQ(refused.status().code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_GT(refused.status().retry_after_ms(), 0u);
  server.device().ReleaseAll();
  EXPECT_EQ(stream.Await(1).status().code(), 0);
  EXPECT_EQ(stream.Await(2).status().code(), 0);
}

TEST_F(SequenceStreamTest, AStreamThatBreaksLeavesNoTrace) {
  TestServer server("run@1=hang", Config());
  SequenceClient client = Client(server);
  KnownSequence a = client.Create(), b = client.Create();
  {
    StepStream stream(client.stub());
    ASSERT_TRUE(stream.Send(1, client.Request({{&a, 0, 20, 20}})));
    server.device().AwaitBatch(1);
    ASSERT_TRUE(stream.Send(2, client.Request({{&a, 0, 20, 20}, {&b, 0, 5, 5}})));
    ASSERT_TRUE(stream.Send(3, client.Request({{&b, 0, 5, 5}})));
    ASSERT_TRUE(stream.Send(4, client.Request({{&b, 1, 0, 0}})));
    server.AwaitMetric("tessera_turn_requests", 3);
  }
  server.AwaitMetric("tessera_cancelled_total{where=\"run\"}", 1);
  server.AwaitMetric("tessera_turn_requests", 0);
  server.device().ReleaseAll();
  server.AwaitIdle();
  EXPECT_EQ(UsedPages(server), 0);
  EXPECT_LT(client.Extend({{&a, 0, 3, 3}, {&b, 0, 3, 3}}), kTolerance);
}

TEST_F(SequenceStreamTest, AStreamThatDrainsFinishesItsCallsAndRefusesNewOnes) {
  TestServer server("run@1=hang", Config());
  SequenceClient client = Client(server);
  StepStream stream(client.stub());
  KnownSequence a = client.Create();
  ASSERT_TRUE(stream.Send(1, client.Request({{&a}})));
  server.device().AwaitBatch(1);
  ASSERT_TRUE(stream.Send(2, client.Request({{&a}})));
  server.AwaitMetric("tessera_turn_requests", 1);
  std::thread drain([&] { EXPECT_TRUE(server.server().Drain(kDrain)); });
  server.clock().AwaitWaiter(server.clock().Now() + kDrain);
  ASSERT_TRUE(stream.Send(3, client.Request({{&a}})));
  EXPECT_EQ(stream.Await(3).status().code(), grpc::StatusCode::UNAVAILABLE);
  server.device().Release(1);
  EXPECT_EQ(stream.Await(1).status().code(), 0);
  EXPECT_EQ(stream.Await(2).status().code(), 0);
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  drain.join();
}

TEST_F(SequenceStreamTest, ALostDeviceEndsTheStreamsCalls) {
  ServerConfig config = Config();
  config.engine.hang_timeout = absl::Seconds(5);
  TestServer server("run@1=hang", config);
  SequenceClient client = Client(server);
  StepStream stream(client.stub());
  KnownSequence a = client.Create();
  ASSERT_TRUE(stream.Send(1, client.Request({{&a}})));
  server.device().AwaitBatch(1);
  ASSERT_TRUE(stream.Send(2, client.Request({{&a}})));
  Await("the device's loss", [&] {
    server.clock().Advance(absl::Seconds(1));
    return !server.Serving();
  });
  EXPECT_EQ(stream.Await(1).status().code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(stream.Await(2).status().code(), grpc::StatusCode::UNAVAILABLE);
  server.device().ReleaseAll();
}

}  // namespace
}  // namespace tessera::testing
