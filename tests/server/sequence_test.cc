// Resident sequences over a real socket: every answer against the definition in double.
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/random/seed.h"
#include "tests/server/await.h"
#include "tests/server/raw_rpc.h"
#include "tests/server/sequence_client.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

constexpr double kTolerance = 1e-5;

CacheProfile Profile(int32_t pages = 64) {
  return {.name = "small",
          .layers = 2,
          .kv_heads = 2,
          .head_dim = 16,
          .dtype = DType::kFloat32,
          .page_tokens = 8,
          .pages = pages,
          .max_tokens = 200,
          .max_sequences = 16};
}

ServerConfig Config(const CacheProfile& profile = Profile()) {
  ServerConfig config = TestServer::Config();
  config.kv_profiles = {profile};
  return config;
}

class SequenceTest : public ::testing::Test {
 protected:
  SequenceClient Client(TestServer& server, const std::string& tenant = "a") {
    return SequenceClient(server.channel(), Profile(), tenant, seed_++);
  }
  static double UsedPages(const TestServer& server) {
    return server.Metrics()["tessera_kv_pages{profile=\"small\",state=\"used\"}"];
  }

  uint64_t seed_ = RandomSeed();
};

TEST_F(SequenceTest, PrefillAndDecodeAreAsDefined) {
  TestServer server("", Config());
  SequenceClient client = Client(server);
  std::vector<KnownSequence> sequences;
  for (int i = 0; i < 5; ++i) sequences.push_back(client.Create());
  std::mt19937_64 rng(seed_);
  for (int step = 0; step < 30; ++step) {
    for (uint32_t layer = 0; layer < 2; ++layer) {
      std::vector<KnownEntry> entries;
      for (KnownSequence& sequence : sequences) {
        if (rng() % 4 == 0) continue;
        // Chunks of a prefill, decodes, reads alone, appends alone.
        const auto q_tokens = static_cast<uint32_t>(rng() % 5 == 0 ? rng() % 12 : 1);
        const uint32_t append_tokens = rng() % 5 == 0 ? 0 : q_tokens;
        entries.push_back({&sequence, layer, q_tokens, append_tokens});
      }
      if (entries.empty()) continue;
      ASSERT_LT(client.Extend(entries), kTolerance) << "step " << step;
    }
  }
  v1::GetSequenceResponse info;
  ASSERT_TRUE(client.Get(sequences[0].handle, &info).ok());
  ASSERT_EQ(info.lengths_size(), 2);
  EXPECT_EQ(info.lengths(1) * 2 * 16, sequences[0].k[1].size());
  EXPECT_EQ(info.profile().name(), "small");
  std::vector<std::string> handles;
  for (const KnownSequence& sequence : sequences) handles.push_back(sequence.handle);
  EXPECT_GT(UsedPages(server), 0);
  EXPECT_EQ(client.Release(handles), 5u);
  EXPECT_EQ(UsedPages(server), 0);
  EXPECT_EQ(server.Metrics()["tessera_kv_sequences{profile=\"small\"}"], 0);
  server.AwaitIdle();
}

TEST_F(SequenceTest, SeveralLayersInOneCall) {
  TestServer server("", Config());
  SequenceClient client = Client(server);
  KnownSequence a = client.Create(), b = client.Create();
  EXPECT_LT(client.Extend({{&a, 0, 9, 9}, {&a, 1, 9, 9}, {&b, 0, 3, 3}, {&b, 1, 3, 3}}), kTolerance);
  EXPECT_LT(client.Extend({{&b, 1}, {&a, 0}, {&b, 0}, {&a, 1}}), kTolerance);
}

TEST_F(SequenceTest, ForksShareUntilTheyAreWritten) {
  TestServer server("", Config());
  SequenceClient client = Client(server);
  KnownSequence trunk = client.Create();
  ASSERT_LT(client.Extend({{&trunk, 0, 20, 20}, {&trunk, 1, 20, 20}}), kTolerance);
  EXPECT_EQ(UsedPages(server), 3);
  KnownSequence whole, part;
  ASSERT_TRUE(client.Fork(trunk, &whole).ok());
  ASSERT_TRUE(client.Fork(trunk, &part, 11).ok());
  EXPECT_EQ(UsedPages(server), 3);
  for (int step = 0; step < 8; ++step) {
    for (uint32_t layer = 0; layer < 2; ++layer) {
      ASSERT_LT(client.Extend({{&trunk, layer}, {&whole, layer}, {&part, layer}}), kTolerance) << step;
    }
  }
  EXPECT_EQ(client.Release({trunk.handle}), 1u);
  ASSERT_LT(client.Extend({{&whole, 0, 1, 0}, {&part, 1, 1, 0}}), kTolerance);
  EXPECT_EQ(client.Release({whole.handle, part.handle}), 2u);
  EXPECT_EQ(UsedPages(server), 0);
  KnownSequence none;
  EXPECT_EQ(client.Fork(whole, &none).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(SequenceTest, Float8KeepsEachHeadByItsScale) {
  CacheProfile profile = Profile();
  profile.float8 = true;
  // Some are so small that most of what they scale is cut off at the largest value.
  for (int i = 0; i < 2 * 2 * 2; ++i) profile.kv_scales.push_back(std::ldexp(1.25f, 3 - 2 * i));
  TestServer server("", Config(profile));
  SequenceClient client(server.channel(), profile, "a", seed_);
  KnownSequence trunk = client.Create();
  ASSERT_LT(client.Extend({{&trunk, 0, 19, 19}, {&trunk, 1, 19, 19}}), kTolerance);
  KnownSequence fork;
  ASSERT_TRUE(client.Fork(trunk, &fork, 11).ok());
  for (int step = 0; step < 8; ++step) {
    for (uint32_t layer = 0; layer < 2; ++layer) {
      ASSERT_LT(client.Extend({{&fork, layer}, {&trunk, layer}}), kTolerance) << step;
    }
  }
  ASSERT_TRUE(client.Truncate(trunk, 3).ok());
  ASSERT_LT(client.Extend({{&trunk, 1, 5, 5}, {&fork, 1, 2, 0}}), kTolerance);
  v1::GetSequenceResponse info;
  ASSERT_TRUE(client.Get(trunk.handle, &info).ok());
  EXPECT_EQ(info.profile().dtype(), v1::DATA_TYPE_FLOAT32);
  EXPECT_EQ(info.profile().kv_dtype(), v1::DATA_TYPE_FLOAT8_E4M3);
}

TEST_F(SequenceTest, IdleSequencesMakeRoomOnTheHostAndComeBack) {
  CacheProfile profile = Profile(/*pages=*/8);
  profile.host_pages = 13;
  TestServer server("", Config(profile));
  SequenceClient client = Client(server);
  const auto on_host = [&server] { return server.Metrics()["tessera_kv_host_pages{profile=\"small\"}"]; };
  std::vector<KnownSequence> sequences(6);
  for (KnownSequence& sequence : sequences) {
    sequence = client.Create();
    ASSERT_LT(client.Extend({{&sequence, 0, 20, 20}, {&sequence, 1, 20, 20}}), kTolerance);
  }
  EXPECT_EQ(UsedPages(server) + on_host(), 18);  // 3 each
  EXPECT_GE(on_host(), 10);
  std::mt19937_64 rng(seed_);
  for (int step = 0; step < 100; ++step) {
    KnownSequence& one = sequences[rng() % 6];
    const auto layer = static_cast<uint32_t>(rng() % 2);
    const uint32_t append = one.k[layer].size() < size_t{24 * 2 * 16} ? rng() % 2 : 0;
    ASSERT_LT(client.Extend({{&one, layer, 1, append}}), kTolerance) << step;
  }
  v1::GetSequenceResponse info;
  ASSERT_TRUE(client.Get(sequences[0].handle, &info).ok());
  EXPECT_EQ(info.pages(), 3u);

  // One more fits, and then there is room for nobody. Who is refused is counted, told when to come again, and served
  // once others have gone; nobody has lost a row.
  KnownSequence seventh = client.Create(), eighth = client.Create();
  ASSERT_LT(client.Extend({{&seventh, 0, 20, 20}}), kTolerance);
  const std::vector<KnownEntry> entries = {{&eighth, 0, 20, 20}};
  const v1::ExtendRequest request = client.Request(entries);
  {
    ExtendCall refused(client.stub(), request, "a");
    EXPECT_EQ(refused.Await().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << refused.Await().error_message();
    EXPECT_NE(refused.RetryPushback(), "");
  }
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"kv_pages\"}"], 1);
  EXPECT_EQ(client.Release({sequences[0].handle, sequences[1].handle}), 2u);
  ExtendCall again(client.stub(), request, "a");
  ASSERT_TRUE(again.Await().ok()) << again.Await().error_message();
  client.Note(entries, request);
  EXPECT_LT(client.Error(entries, request, again.response()), kTolerance);
  EXPECT_LT(client.Extend({{&seventh, 0, 1, 0}}), kTolerance);
  for (int i = 2; i < 6; ++i)
    EXPECT_LT(client.Extend({{&sequences[i], 0, 1, 0}, {&sequences[i], 1, 2, 0}}), kTolerance);

  std::vector<std::string> handles = {seventh.handle, eighth.handle};
  for (int i = 2; i < 6; ++i) handles.push_back(sequences[i].handle);
  EXPECT_EQ(client.Release(handles), 6u);
  EXPECT_EQ(UsedPages(server), 0);
  EXPECT_EQ(on_host(), 0);
  server.AwaitIdle();
}

// The second batch is the move of an idle sequence. It fails, with another call waiting for the same sequence.
TEST_F(SequenceTest, WhoMeetsAMoveThatFailsMayComeAgain) {
  CacheProfile profile = Profile(/*pages=*/4);
  profile.host_pages = 4;
  TestServer server("copy_in@2=hang; run@2=resource_exhausted", Config(profile));
  SequenceClient client = Client(server);
  KnownSequence idle = client.Create(), wants = client.Create();
  ASSERT_LT(client.Extend({{&idle, 0, 20, 20}}), kTolerance);
  const std::vector<KnownEntry> too_many = {{&wants, 0, 16, 16}}, meets = {{&idle}};
  ExtendCall moves(client.stub(), client.Request(too_many), "a");
  server.device().AwaitBatch(2);
  ExtendCall waits(client.stub(), client.Request(meets), "a");
  server.AwaitMetric("tessera_turn_requests", 2);
  server.device().Release(2);
  for (const auto& [call, entries] : {std::pair(&moves, &too_many), std::pair(&waits, &meets)}) {
    if (call->Await().ok()) {
      client.Note(*entries, call->request());
      continue;
    }
    EXPECT_EQ(call->Await().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << call->Await().error_message();
    EXPECT_FALSE(call->RetryPushback().empty());
  }
  EXPECT_LT(client.Extend({{&idle}}), kTolerance);
  EXPECT_LT(client.Extend({{&wants, 0, 16, 16}}), kTolerance);
  server.AwaitIdle();
}

// As before, but the device is lost by it.
TEST_F(SequenceTest, WhoMeetsAMoveThatLosesTheDeviceHearsThatItIsLost) {
  CacheProfile profile = Profile(/*pages=*/4);
  profile.host_pages = 4;
  TestServer server("copy_in@2=hang; run@2=sticky", Config(profile));
  SequenceClient client = Client(server);
  KnownSequence idle = client.Create(), wants = client.Create();
  ASSERT_LT(client.Extend({{&idle, 0, 20, 20}}), kTolerance);
  ExtendCall moves(client.stub(), client.Request({{&wants, 0, 16, 16}}), "a");
  server.device().AwaitBatch(2);
  ExtendCall waits(client.stub(), client.Request({{&idle}}), "a");
  server.AwaitMetric("tessera_turn_requests", 2);
  server.device().Release(2);
  for (ExtendCall* call : {&moves, &waits}) {
    EXPECT_EQ(call->Await().error_code(), grpc::StatusCode::UNAVAILABLE) << call->Await().error_message();
  }
}

TEST_F(SequenceTest, TruncateRollsBack) {
  TestServer server("", Config());
  SequenceClient client = Client(server);
  KnownSequence sequence = client.Create();
  ASSERT_LT(client.Extend({{&sequence, 0, 19, 19}, {&sequence, 1, 17, 17}}), kTolerance);
  EXPECT_EQ(client.Truncate(sequence, 20).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(client.Truncate(sequence, 10).ok());
  EXPECT_EQ(UsedPages(server), 2);
  ASSERT_LT(client.Extend({{&sequence, 0, 4, 4}, {&sequence, 1, 1, 0}}), kTolerance);
  ASSERT_TRUE(client.Truncate(sequence, 0).ok());
  EXPECT_EQ(UsedPages(server), 0);
  ASSERT_LT(client.Extend({{&sequence, 0, 1, 1}}), kTolerance);
}

TEST_F(SequenceTest, SameBitsAloneAndAmongOthers) {
  TestServer server("", Config(Profile(512)));
  SequenceClient client = Client(server);
  KnownSequence trunk = client.Create();
  ASSERT_LT(client.Extend({{&trunk, 0, 150, 150}}), kTolerance);
  KnownSequence alone, among;
  ASSERT_TRUE(client.Fork(trunk, &alone).ok());
  ASSERT_TRUE(client.Fork(trunk, &among).ok());
  std::vector<KnownSequence> others;
  std::vector<KnownEntry> entries = {{&among, 0}};
  for (int i = 0; i < 8; ++i) others.push_back(client.Create());
  for (KnownSequence& other : others) entries.push_back({&other, 0, 30, 30});
  const v1::ExtendRequest together = client.Request(entries);
  v1::ExtendRequest one = client.Request({{&alone, 0}});
  one.set_q(together.q().substr(0, one.q().size()));
  one.set_k(together.k().substr(0, one.k().size()));
  one.set_v(together.v().substr(0, one.v().size()));
  ExtendCall call_alone(client.stub(), one, "a");
  ASSERT_TRUE(call_alone.Await().ok());
  ExtendCall call_among(client.stub(), together, "a");
  ASSERT_TRUE(call_among.Await().ok());
  const v1::ExtendResponse& expected = call_alone.response();
  EXPECT_EQ(call_among.response().o().substr(0, expected.o().size()), expected.o());
  EXPECT_EQ(call_among.response().lse().substr(0, expected.lse().size()), expected.lse());
}

TEST_F(SequenceTest, DecodesOfManyCallersShareABatch) {
  TestServer server("run@1=hang", Config());
  SequenceClient client = Client(server), other = Client(server, "b");
  KnownSequence holder = client.Create();
  ExtendCall holds(client.stub(), client.Request({{&holder}}), "a");
  server.device().AwaitBatch(1);
  KnownSequence a = client.Create(), b = other.Create();
  const std::vector<KnownEntry> of_a = {{&a, 0, 3, 3}}, of_b = {{&b, 1, 2, 2}};
  ExtendCall call_a(client.stub(), client.Request(of_a), "a"), call_b(other.stub(), other.Request(of_b), "b");
  server.AwaitQueued(2);
  server.device().Release(1);
  ASSERT_TRUE(call_a.Await().ok());
  ASSERT_TRUE(call_b.Await().ok());
  EXPECT_EQ(call_a.response().result().timing().batch_requests(), 2u);
  client.Note(of_a, call_a.request());
  other.Note(of_b, call_b.request());
  EXPECT_LT(client.Error(of_a, call_a.request(), call_a.response()), kTolerance);
  EXPECT_LT(other.Error(of_b, call_b.request(), call_b.response()), kTolerance);
}

TEST_F(SequenceTest, CallsOnOneSequenceAreDoneInOrder) {
  TestServer server("run@1=hang", Config());
  SequenceClient client = Client(server);
  KnownSequence sequence = client.Create();
  const std::vector<KnownEntry> entries = {{&sequence, 0, 2, 2}};
  std::vector<std::unique_ptr<ExtendCall>> calls;
  calls.push_back(std::make_unique<ExtendCall>(client.stub(), client.Request(entries), "a"));
  server.device().AwaitBatch(1);
  for (int waiting = 1; waiting < 5; ++waiting) {
    calls.push_back(std::make_unique<ExtendCall>(client.stub(), client.Request(entries), "a"));
    server.AwaitMetric("tessera_turn_requests", waiting);
  }
  EXPECT_EQ(server.Metrics()["tessera_queue_requests"], 0) << "they wait for their turn, not in the queue";
  server.device().Release(1);
  for (const auto& call : calls) {
    ASSERT_TRUE(call->Await().ok()) << call->Await().error_message();
    client.Note(entries, call->request());
    EXPECT_LT(client.Error(entries, call->request(), call->response()), kTolerance);
  }
}

TEST_F(SequenceTest, CancelledWhileItWaitsForItsTurnItHoldsNothing) {
  TestServer server("run@1=hang", Config());
  SequenceClient client = Client(server);
  KnownSequence sequence = client.Create();
  const std::vector<KnownEntry> entries = {{&sequence, 0, 100, 10}};
  ExtendCall runs(client.stub(), client.Request(entries), "a");
  server.device().AwaitBatch(1);
  const v1::Occupancy before = server.Info().occupancy();
  {
    std::vector<std::unique_ptr<ExtendCall>> waiting;
    for (int i = 0; i < 5; ++i) {
      waiting.push_back(std::make_unique<ExtendCall>(client.stub(), client.Request(entries), "a"));
    }
    server.AwaitMetric("tessera_turn_requests", 5);
    EXPECT_GT(server.Metrics()["tessera_turn_bytes"], 5 * 100 * 4 * 16 * 4);
    EXPECT_GT(server.Info().occupancy().staging_used_bytes(), before.staging_used_bytes());
    for (const auto& call : waiting) call->Cancel();
    for (const auto& call : waiting) EXPECT_EQ(call->Await().error_code(), grpc::StatusCode::CANCELLED);
    server.AwaitOccupancy([&](const v1::Occupancy& now) {
      return now.inflight_bytes() == before.inflight_bytes() && now.staging_used_bytes() == before.staging_used_bytes();
    });
  }
  server.AwaitMetric("tessera_turn_requests", 0);
  EXPECT_EQ(server.Metrics()["tessera_turn_bytes"], 0);
  EXPECT_FALSE(runs.done());
  const std::vector<KnownEntry> small = {{&sequence}};
  ExtendCall next(client.stub(), client.Request(small), "a");
  server.device().Release(1);
  ASSERT_TRUE(runs.Await().ok());
  ASSERT_TRUE(next.Await().ok());
  client.Note(entries, runs.request());
  client.Note(small, next.request());
  EXPECT_LT(client.Error(small, next.request(), next.response()), kTolerance);
  server.AwaitIdle();
}

TEST_F(SequenceTest, CallsThatWaitForTheirTurnCountAgainstTheQueuesBounds) {
  ServerConfig config = Config();
  config.scheduler.max_queue_jobs = 4;
  config.scheduler.max_tenant_share = 0.75;
  TestServer server("run@1=hang", config);
  SequenceClient client = Client(server), other = Client(server, "b");
  KnownSequence sequence = client.Create();
  const std::vector<KnownEntry> entries = {{&sequence}};
  std::vector<std::unique_ptr<ExtendCall>> calls;
  calls.push_back(std::make_unique<ExtendCall>(client.stub(), client.Request(entries), "a"));
  server.device().AwaitBatch(1);
  for (int waiting = 1; waiting <= 3; ++waiting) {
    calls.push_back(std::make_unique<ExtendCall>(client.stub(), client.Request(entries), "a"));
    server.AwaitMetric("tessera_turn_requests", waiting);
  }
  ExtendCall refused(client.stub(), client.Request(entries), "a");
  EXPECT_EQ(refused.Await().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << "one tenant's share is three";
  EXPECT_FALSE(refused.RetryPushback().empty());
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"queue\"}"], 1);
  KnownSequence of_other = other.Create();
  ExtendCall others(other.stub(), other.Request({{&of_other}}), "b");
  server.AwaitQueued(1);
  EXPECT_EQ(server.Metrics()["tessera_turn_requests"], 3);
  EXPECT_EQ(server.Info().occupancy().queue_requests(), 4u) << "what counts against the limit";
  EXPECT_GT(server.Info().occupancy().queue_bytes(), 0u);
  ExtendCall fifth(other.stub(), other.Request({{&of_other}}), "b");
  EXPECT_EQ(fifth.Await().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << "three wait and one is queued";
  server.device().Release(1);
  for (const auto& call : calls) {
    ASSERT_TRUE(call->Await().ok()) << call->Await().error_message();
    client.Note(entries, call->request());
    EXPECT_LT(client.Error(entries, call->request(), call->response()), kTolerance);
  }
  EXPECT_TRUE(others.Await().ok());
  server.AwaitMetric("tessera_turn_requests", 0);
}

TEST_F(SequenceTest, AReleaseEndsCallsThatWaitForTheirTurn) {
  TestServer server("run@1=hang", Config());
  SequenceClient client = Client(server);
  KnownSequence sequence = client.Create();
  const std::vector<KnownEntry> entries = {{&sequence, 0, 3, 3}};
  ExtendCall runs(client.stub(), client.Request(entries), "a");
  server.device().AwaitBatch(1);
  ExtendCall waits(client.stub(), client.Request(entries), "a");
  server.AwaitMetric("tessera_turn_requests", 1);
  EXPECT_EQ(client.Release({sequence.handle}), 1u);
  EXPECT_EQ(waits.Await().error_code(), grpc::StatusCode::NOT_FOUND) << "at once";
  server.AwaitMetric("tessera_turn_requests", 0);
  EXPECT_FALSE(runs.done());
  server.device().Release(1);
  ASSERT_TRUE(runs.Await().ok()) << runs.Await().error_message();
  client.Note(entries, runs.request());
  EXPECT_LT(client.Error(entries, runs.request(), runs.response()), kTolerance);
  server.AwaitMetric("tessera_kv_pages{profile=\"small\",state=\"used\"}", 0);
}

TEST_F(SequenceTest, CancelledWhileItRunsLeavesNoTrace) {
  TestServer server("run@2=hang", Config());
  SequenceClient client = Client(server);
  KnownSequence sequence = client.Create();
  ASSERT_LT(client.Extend({{&sequence, 0, 5, 5}}), kTolerance);
  const std::vector<KnownEntry> entries = {{&sequence, 0, 20, 20}};
  ExtendCall cancelled(client.stub(), client.Request(entries), "a");
  server.device().AwaitBatch(2);
  ExtendCall next(client.stub(), client.Request({{&sequence, 0, 2, 2}}), "a");
  server.AwaitMetric("tessera_turn_requests", 1);
  cancelled.Cancel();
  EXPECT_EQ(cancelled.Await().error_code(), grpc::StatusCode::CANCELLED);
  server.AwaitMetric("tessera_cancelled_total{where=\"run\"}", 1);
  EXPECT_EQ(server.Metrics()["tessera_turn_requests"], 1) << "the device still has the pages of the call before it";
  server.device().Release(2);
  ASSERT_TRUE(next.Await().ok()) << next.Await().error_message();
  const std::vector<KnownEntry> small = {{&sequence, 0, 2, 2}};
  client.Note(small, next.request());
  EXPECT_LT(client.Error(small, next.request(), next.response()), kTolerance);
  EXPECT_EQ(UsedPages(server), 1);
  server.AwaitIdle();
}

TEST_F(SequenceTest, AFailedStepChangesNothing) {
  TestServer server("run@2=resource_exhausted", Config());
  SequenceClient client = Client(server);
  KnownSequence sequence = client.Create();
  ASSERT_LT(client.Extend({{&sequence, 0, 7, 7}}), kTolerance);
  ExtendCall failed(client.stub(), client.Request({{&sequence, 0, 9, 9}}), "a");
  EXPECT_EQ(failed.Await().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_FALSE(failed.RetryPushback().empty());
  EXPECT_LT(client.Extend({{&sequence, 0, 3, 3}}), kTolerance);
}

TEST_F(SequenceTest, HandlesThatAreNotGoodAreAllNotFound) {
  TestServer server("", Config());
  SequenceClient client = Client(server), thief = Client(server, "b");
  KnownSequence mine = client.Create(), released = client.Create(), guessed = mine, short_one = mine, empty = mine;
  ASSERT_LT(client.Extend({{&mine, 0, 3, 3}}), kTolerance);
  EXPECT_EQ(client.Release({released.handle, "nonsense"}), 1u);
  EXPECT_EQ(client.Release({released.handle}), 0u);
  guessed.handle.back() = static_cast<char>(guessed.handle.back() + 1);
  short_one.handle.pop_back();
  empty.handle.clear();
  std::string message;
  const auto not_found = [&](SequenceClient& caller, const std::string& tenant, KnownSequence& sequence) {
    ExtendCall call(caller.stub(), caller.Request({{&sequence}}), tenant);
    EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::NOT_FOUND);
    if (message.empty()) message = call.Await().error_message();
    EXPECT_EQ(call.Await().error_message(), message);
    // Nor does it help to be wrong in another way, too.
    v1::ExtendRequest layer = call.request(), payload = call.request(), heads = call.request();
    layer.mutable_header()->mutable_entries(0)->set_layer(1000);
    payload.mutable_q()->push_back('x');
    heads.mutable_header()->set_q_heads(3);
    for (const v1::ExtendRequest& request : {layer, payload, heads}) {
      ExtendCall bad(caller.stub(), request, tenant);
      EXPECT_EQ(bad.Await().error_code(), grpc::StatusCode::NOT_FOUND);
      EXPECT_EQ(bad.Await().error_message(), message);
    }
    v1::GetSequenceResponse info;
    EXPECT_EQ(caller.Get(sequence.handle, &info).error_message(), message);
    KnownSequence fork;
    EXPECT_EQ(caller.Fork(sequence, &fork).error_message(), message);
    KnownSequence copy = sequence;
    EXPECT_EQ(caller.Truncate(copy, 0).error_message(), message);
    EXPECT_EQ(caller.Release({sequence.handle}), 0u);
  };
  not_found(client, "a", released);
  not_found(client, "a", guessed);
  not_found(client, "a", short_one);
  not_found(client, "a", empty);
  not_found(thief, "b", mine);
  EXPECT_LT(client.Extend({{&mine}}), kTolerance);
  TestServer restarted("", Config());
  SequenceClient after = Client(restarted);
  not_found(after, "a", mine);
  // Of each, four Extends, a Get, a Fork and a Truncate; a Release answers.
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"not_found\"}"], 5 * 7);
  EXPECT_EQ(restarted.Metrics()["tessera_rejected_total{reason=\"not_found\"}"], 7);
}

TEST_F(SequenceTest, PagesThatRunOutRefuseAndChangeNothing) {
  TestServer server("", Config(Profile(4)));
  SequenceClient client = Client(server);
  KnownSequence a = client.Create(), b = client.Create();
  ASSERT_LT(client.Extend({{&a, 0, 20, 20}}), kTolerance);
  ExtendCall refused(client.stub(), client.Request({{&b, 0, 16, 16}}), "a");
  EXPECT_EQ(refused.Await().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << refused.Await().error_message();
  EXPECT_FALSE(refused.RetryPushback().empty());
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"kv_pages\"}"], 1);
  const std::vector<std::vector<KnownEntry>> impossible = {
      {{&b, 0, 40, 40}}, {{&a, 0, 20, 20}}, {{&a, 0, 3, 3}, {&b, 0, 16, 16}}};
  for (const std::vector<KnownEntry>& entries : impossible) {
    ExtendCall never(client.stub(), client.Request(entries), "a");
    EXPECT_EQ(never.Await().error_code(), grpc::StatusCode::INVALID_ARGUMENT) << never.Await().error_message();
    EXPECT_TRUE(never.RetryPushback().empty());
  }
  EXPECT_EQ(UsedPages(server), 3);
  ASSERT_LT(client.Extend({{&a, 0, 3, 3}, {&b, 0, 8, 8}}), kTolerance);
  EXPECT_EQ(client.Release({a.handle}), 1u);
  EXPECT_LT(client.Extend({{&b, 0, 10, 10}}), kTolerance);
}

TEST_F(SequenceTest, SequencesAndShareOfATenantAreBounded) {
  CacheProfile profile = Profile(8);
  profile.max_sequences = 4;
  profile.tenant_share = 0.5;
  TestServer server("", Config(profile));
  SequenceClient client = Client(server), other = Client(server, "b");
  v1::CreateSequencesResponse response;
  EXPECT_EQ(client.Create(0, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client.Create(3, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(client.Create(2, &response).ok());
  EXPECT_EQ(response.sequences_size(), 2);
  EXPECT_EQ(response.profile().lease_ms(), 300'000u);
  EXPECT_EQ(client.Create(1, &response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(other.Create(2, &response).ok());
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"kv_pages\"}"], 1);
}

TEST_F(SequenceTest, LeasesEnd) {
  TestServer server("", Config());
  SequenceClient client = Client(server);
  KnownSequence used = client.Create(), idle = client.Create();
  ASSERT_LT(client.Extend({{&used, 0, 3, 3}, {&idle, 0, 9, 9}}), kTolerance);
  EXPECT_EQ(UsedPages(server), 3);
  server.clock().Advance(absl::Minutes(4));
  ASSERT_LT(client.Extend({{&used}}), kTolerance);
  server.clock().Advance(absl::Minutes(2));
  v1::GetSequenceResponse info;
  EXPECT_EQ(client.Get(idle.handle, &info).error_code(), grpc::StatusCode::NOT_FOUND);
  ASSERT_TRUE(client.Get(used.handle, &info).ok());
  EXPECT_EQ(info.expires_in_ms(), 300'000u);
  // The sweep gives its pages back though nobody asks.
  server.AwaitMetric("tessera_kv_pages{profile=\"small\",state=\"used\"}", 1);
  EXPECT_EQ(server.Metrics()["tessera_kv_sequences{profile=\"small\"}"], 1);
}

TEST_F(SequenceTest, HostileCallsAreRefusedByName) {
  ServerConfig config = Config();
  CacheProfile second = Profile();
  second.name = "second";
  config.kv_profiles.push_back(second);
  TestServer server("", config);
  SequenceClient client = Client(server);
  SequenceClient of_second(server.channel(), second, "a", seed_);
  KnownSequence a = client.Create(), b = of_second.Create();
  const auto refused = [&](v1::ExtendRequest request, const char* names) {
    ExtendCall call(client.stub(), std::move(request), "a");
    EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::INVALID_ARGUMENT) << names;
    EXPECT_THAT(call.Await().error_message(), HasSubstr(names));
  };
  const v1::ExtendRequest good = client.Request({{&a, 0, 2, 2}});
  const auto changed = [&](auto change) {
    v1::ExtendRequest request = good;
    change(request);
    return request;
  };
  refused(changed([](auto& r) { r.clear_header(); }), "header");
  refused(changed([](auto& r) { r.mutable_header()->clear_entries(); }), "entries");
  refused(changed([](auto& r) { r.mutable_q()->pop_back(); }), "q:");
  refused(changed([](auto& r) { r.mutable_k()->push_back('x'); }), "k:");
  refused(changed([](auto& r) { r.clear_v(); }), "v:");
  refused(changed([](auto& r) { r.mutable_header()->set_q_heads(3); }), "q_heads");
  refused(changed([](auto& r) { r.mutable_header()->set_q_heads(0xffffffff); }), "q_heads");
  refused(changed([](auto& r) { r.mutable_header()->mutable_entries(0)->set_layer(2); }), "layer");
  refused(changed([](auto& r) { r.mutable_header()->mutable_entries(0)->set_layer(0xffffffff); }), "layer");
  refused(changed([](auto& r) { r.mutable_header()->mutable_entries(0)->set_q_tokens(0xffffffff); }), "q_tokens");
  refused(changed([](auto& r) { r.mutable_header()->mutable_entries(0)->set_append_tokens(201); }), "append_tokens");
  refused(changed([](auto& r) { *r.mutable_header()->add_entries() = r.header().entries(0); }), "twice");
  refused(changed([&](auto& r) { r.mutable_header()->add_entries()->set_sequence(b.handle); }), "one profile");
  refused(changed([](auto& r) { r.mutable_header()->mutable_options()->set_softcap(-1); }), "softcap");
  std::string response;
  EXPECT_EQ(RawCall(server.channel(), "/tessera.v1.SequenceService/Extend", "\x0a\xff\xff", &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(RawCall(server.channel(), "/tessera.v1.SequenceService/GetSequence", "\x0a\xff", &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  v1::CreateSequencesRequest unknown;
  unknown.set_profile("no such");
  grpc::ClientContext context;
  v1::CreateSequencesResponse created;
  EXPECT_EQ(client.stub().CreateSequences(&context, unknown, &created).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  // A name is not told back, however long, and one that is not UTF-8 does not parse.
  unknown.set_profile(std::string(100'000, 'n'));
  for (const std::string& request : {unknown.SerializeAsString(), std::string("\x0a\x02\xff\xfe")}) {
    const grpc::Status status =
        RawCall(server.channel(), "/tessera.v1.SequenceService/CreateSequences", request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_LT(status.error_message().size(), 100u) << status.error_message();
  }
  EXPECT_EQ(UsedPages(server), 0);
  EXPECT_LT(client.Extend({{&a, 0, 2, 2}}), kTolerance);
  server.AwaitIdle();
}

TEST_F(SequenceTest, LongerThanTheProfileAllowsIsInvalid) {
  TestServer server("", Config());
  SequenceClient client = Client(server);
  KnownSequence a = client.Create();
  ASSERT_LT(client.Extend({{&a, 0, 1, 199}}), kTolerance);
  ExtendCall call(client.stub(), client.Request({{&a, 0, 2, 2}}), "a");
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_LT(client.Extend({{&a}}), kTolerance);
}

// A read of 60 rows costs 2 million on an empty sequence and 4 million after 150 rows more.
TEST_F(SequenceTest, WhatACallCostsIsLookedAtAgainWhenItsTurnComes) {
  ServerConfig config = Config();
  config.attend.request.max_request_cost = 3'200'000;
  TestServer server("run@1=hang", config);
  SequenceClient client = Client(server);
  KnownSequence a = client.Create();
  const std::vector<KnownEntry> longer = {{&a, 0, 1, 150}};
  ExtendCall before(client.stub(), client.Request(longer), "a");
  server.device().AwaitBatch(1);
  ExtendCall call(client.stub(), client.Request({{&a, 0, 60, 0}}), "a");
  server.AwaitMetric("tessera_turn_requests", 1);
  EXPECT_FALSE(call.done());
  server.device().Release(1);
  ASSERT_TRUE(before.Await().ok()) << before.Await().error_message();
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(call.Await().error_message(), HasSubstr("max_request_cost = 3200000"));
  client.Note(longer, before.request());
  // And when it comes.
  ExtendCall again(client.stub(), client.Request({{&a, 0, 60, 0}}), "a");
  EXPECT_EQ(again.Await().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_LT(client.Extend({{&a, 0, 20, 0}}), kTolerance);
  server.AwaitIdle();
}

TEST_F(SequenceTest, MessagesWithoutTensorsAreBoundedBeforeTheyAreParsed) {
  TestServer server("", Config());
  SequenceClient client = Client(server);
  v1::ReleaseSequencesRequest request;
  for (int i = 0; i < 600'000; ++i) request.add_sequences("");  // two bytes each
  grpc::ClientContext context;
  v1::ReleaseSequencesResponse response;
  const grpc::Status status = client.stub().ReleaseSequences(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("it may have 1048576"));
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"invalid\"}"], 1);
}

TEST_F(SequenceTest, ALostDeviceEndsAlsoWhoWaitsForATurn) {
  ServerConfig config = Config();
  config.engine.hang_timeout = absl::Seconds(5);
  TestServer server("run@1=hang", config);
  SequenceClient client = Client(server);
  KnownSequence sequence = client.Create();
  ExtendCall runs(client.stub(), client.Request({{&sequence}}), "a");
  server.device().AwaitBatch(1);
  ExtendCall waits(client.stub(), client.Request({{&sequence}}), "a");
  server.AwaitMetric("tessera_turn_requests", 1);
  Await("the hanging call's end", [&] {
    server.clock().Advance(absl::Seconds(1));
    return runs.done();
  });
  EXPECT_EQ(runs.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(waits.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
  v1::CreateSequencesResponse response;
  EXPECT_EQ(client.Create(1, &response).error_code(), grpc::StatusCode::UNAVAILABLE);
  server.device().ReleaseAll();
}

TEST_F(SequenceTest, DrainingFinishesWhatWaitsForItsTurn) {
  TestServer server("run@1=hang", Config());
  SequenceClient client = Client(server);
  KnownSequence sequence = client.Create();
  ExtendCall runs(client.stub(), client.Request({{&sequence}}), "a");
  server.device().AwaitBatch(1);
  ExtendCall waits(client.stub(), client.Request({{&sequence}}), "a");
  server.AwaitMetric("tessera_turn_requests", 1);
  constexpr absl::Duration kDrain = absl::Seconds(20);  // nothing else waits so long
  std::thread drain([&] { EXPECT_TRUE(server.server().Drain(kDrain)); });
  server.clock().AwaitWaiter(server.clock().Now() + kDrain);
  server.device().Release(1);
  EXPECT_TRUE(runs.Await().ok());
  EXPECT_TRUE(waits.Await().ok()) << waits.Await().error_message();
  drain.join();
}

}  // namespace
}  // namespace tessera::testing
