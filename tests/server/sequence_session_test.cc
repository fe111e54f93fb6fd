// The C++ client's sequences against the real server, every answer against the definition in double.
#include "client/cpp/tessera/sequence_session.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/types/span.h"
#include "client/cpp/tessera/extend_rpc.h"
#include "client/cpp/tessera/retry_after.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/random/seed.h"
#include "tests/server/await.h"
#include "tests/server/sequence_client.h"
#include "tests/server/test_server.h"

namespace tessera {
namespace {

using testing::Await;
using ::testing::HasSubstr;
using testing::KnownEntry;
using testing::KnownSequence;
using testing::MetricsReader;
using testing::SequenceClient;
using testing::TestServer;

constexpr double kTolerance = 1e-5;
constexpr char kSequences[] = "tessera_kv_sequences{profile=\"small\"}";
constexpr char kUsedPages[] = "tessera_kv_pages{profile=\"small\",state=\"used\"}";

CacheProfile Profile(int32_t pages = 256) {
  return {.name = "small",
          .layers = 2,
          .kv_heads = 2,
          .head_dim = 16,
          .dtype = DType::kFloat32,
          .page_tokens = 8,
          .pages = pages,
          .max_tokens = 400,
          .max_sequences = 16};
}

ServerConfig Config(const CacheProfile& profile = Profile()) {
  ServerConfig config = TestServer::Config();
  config.kv_profiles = {profile};
  return config;
}

std::string Target(TestServer& server) { return absl::StrCat("127.0.0.1:", server.server().grpc_port()); }

// A sequence of the session, and its rows as they are known here.
struct Kept {
  explicit Kept(ResidentSequence sequence) : resident(std::move(sequence)) {
    const auto layers = static_cast<size_t>(resident.profile().layers());
    known = {.handle = resident.handle(),
             .k = std::vector<std::vector<float>>(layers),
             .v = std::vector<std::vector<float>>(layers)};
  }

  ResidentSequence resident;
  KnownSequence known;
};

struct Part {
  Kept* kept;
  uint32_t layer = 0;
  uint32_t q_tokens = 1;
  uint32_t append_tokens = 1;
};

// A call of random rows that owns its tensors. Its outputs are poisoned.
class Call {
 public:
  Call(SequenceClient& rows, const std::vector<Part>& parts) {
    for (const Part& part : parts)
      entries_.push_back({&part.kept->known, part.layer, part.q_tokens, part.append_tokens});
    request_ = rows.Request(entries_);
    o_.assign(request_.q().size(), '\xa5');
    lse_.assign(o_.size() / 16, '\xa5');
    call_.q_heads = request_.header().q_heads();
    call_.options = request_.header().options();
    const size_t head = 16 * sizeof(float);
    size_t q = 0, kv = 0;
    for (const Part& part : parts) {
      const size_t q_bytes = part.q_tokens * call_.q_heads * head;
      const size_t kv_bytes = part.append_tokens * 2 * head;
      Step& step = call_.steps.emplace_back();
      step.sequence = &part.kept->resident;
      step.layer = part.layer;
      step.q = In(request_.q()).subspan(q, q_bytes);
      step.k = In(request_.k()).subspan(kv, kv_bytes);
      step.v = In(request_.v()).subspan(kv, kv_bytes);
      step.o = Out(o_).subspan(q, q_bytes);
      step.lse = Out(lse_).subspan(q / 16, q_bytes / 16);
      q += q_bytes;
      kv += kv_bytes;
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  ExtendCall& call() { return call_; }

  CallHandle Start(SequenceSession& session) {
    return session.ExtendAsync(call_, [this](absl::StatusOr<ExtendReply> reply) {
      reply_ = std::move(reply);
      done_.Notify();
    });
  }
  const absl::StatusOr<ExtendReply>& Await() {
    done_.WaitForNotification();
    return reply_;
  }
  void Run(SequenceSession& session) {
    reply_ = session.Extend(call_);
    done_.Notify();
  }

  // Adds the call's rows to what is known, and compares its answer with the definition over them. REQUIRES: Await, or
  // Run; calls on one sequence are noted in their order.
  void ExpectRight(SequenceClient& rows) {
    ASSERT_TRUE(reply_.ok()) << reply_.status();
    v1::ExtendResponse response;
    *response.mutable_result() = reply_->result;
    response.set_o(o_);
    response.set_lse(lse_);
    rows.Note(entries_, request_);
    EXPECT_LT(rows.Error(entries_, request_, response), kTolerance);
  }

 private:
  static absl::Span<const std::byte> In(const std::string& bytes) {
    return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
  }
  static absl::Span<std::byte> Out(std::string& bytes) {
    return {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
  }

  std::vector<KnownEntry> entries_;
  v1::ExtendRequest request_;
  std::string o_, lse_;
  ExtendCall call_;
  absl::Notification done_;
  absl::StatusOr<ExtendReply> reply_;
};

class SequenceSessionTest : public ::testing::TestWithParam<Transport> {
 protected:
  static std::unique_ptr<SequenceSession> Connect(const std::string& target, ClientOptions options = {}) {
    options.connections = 2;
    options.transport = GetParam();
    options.tenant = "a";
    absl::StatusOr<std::unique_ptr<SequenceSession>> session = SequenceSession::Connect(target, options);
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }
  static std::deque<Kept> Create(SequenceSession& session, uint32_t count) {
    absl::StatusOr<std::vector<ResidentSequence>> sequences = session.Create("small", count);
    EXPECT_TRUE(sequences.ok()) << sequences.status();
    std::deque<Kept> kept;
    for (ResidentSequence& sequence : *sequences) kept.emplace_back(std::move(sequence));
    return kept;
  }
  // Makes rows, and knows what attention over them is. Sends nothing.
  SequenceClient Rows(const TestServer& server) { return {server.channel(), Profile(), "a", RandomSeed()}; }

  void Extend(SequenceSession& session, SequenceClient& rows, const std::vector<Part>& parts) {
    Call call(rows, parts);
    call.Run(session);
    call.ExpectRight(rows);
  }
};

INSTANTIATE_TEST_SUITE_P(Transports, SequenceSessionTest, ::testing::Values(Transport::kUnary, Transport::kStream),
                         [](const auto& param) { return param.param == Transport::kUnary ? "Unary" : "Stream"; });

// Order between calls, and what depends on it.
using SequenceStreamSessionTest = SequenceSessionTest;
INSTANTIATE_TEST_SUITE_P(Stream, SequenceStreamSessionTest, ::testing::Values(Transport::kStream),
                         [](const auto&) { return "Stream"; });

TEST_P(SequenceSessionTest, PrefillDecodeForkAndRollbackAreAsDefined) {
  TestServer server("", Config());
  const std::unique_ptr<SequenceSession> session = Connect(Target(server));
  SequenceClient rows = Rows(server);
  {
    std::deque<Kept> sequences = Create(*session, 3);
    EXPECT_EQ(sequences[0].resident.profile().name(), "small");
    // 300 tokens of q, k and v are more than a payload that is copied; one token is less.
    for (const uint32_t tokens : {300u, 1u, 1u, 7u}) {
      for (uint32_t layer = 0; layer < 2; ++layer) {
        Extend(*session, rows, {{&sequences[0], layer, tokens, tokens}, {&sequences[1], layer, 3, 2}});
      }
    }
    Extend(*session, rows, {{&sequences[2], 0, 0, 5}, {&sequences[2], 1, 4, 5}});  // appends only
    Extend(*session, rows, {{&sequences[2], 0, 2, 0}});                            // reads only

    absl::StatusOr<ResidentSequence> whole = sequences[0].resident.Fork();
    absl::StatusOr<ResidentSequence> part = sequences[1].resident.Fork(3);
    ASSERT_TRUE(whole.ok()) << whole.status();
    ASSERT_TRUE(part.ok()) << part.status();
    Kept beam(*std::move(whole)), stub(*std::move(part));
    beam.known.k = sequences[0].known.k;
    beam.known.v = sequences[0].known.v;
    for (size_t layer = 0; layer < 2; ++layer) {
      for (const auto& [to, from] : {std::pair{&stub.known.k[layer], &sequences[1].known.k[layer]},
                                     std::pair{&stub.known.v[layer], &sequences[1].known.v[layer]}}) {
        to->assign(from->begin(), from->begin() + 3 * 2 * 16);
      }
    }
    Extend(*session, rows, {{&beam, 0, 1, 1}, {&sequences[0], 0, 1, 1}, {&stub, 1, 2, 2}});

    ASSERT_TRUE(beam.resident.Truncate(305).ok());
    for (auto* tensor : {&beam.known.k, &beam.known.v}) {
      for (std::vector<float>& layer : *tensor) layer.resize(305 * 2 * 16);
    }
    Extend(*session, rows, {{&beam, 0, 1, 1}, {&beam, 1, 1, 1}});
    const absl::StatusOr<v1::GetSequenceResponse> info = beam.resident.Get();
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_THAT(info->lengths(), ::testing::ElementsAre(306, 306));
    EXPECT_GT(info->pages(), 0u);
    EXPECT_GT(info->expires_in_ms(), 0u);

    EXPECT_TRUE(beam.resident.Release().ok());
    EXPECT_TRUE(beam.resident.Release().ok()) << "there is nothing to release";
    EXPECT_EQ(beam.resident.Get().status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(server.Metrics()[kSequences], 4);
  }
  // What goes out of scope is released.
  server.AwaitMetric(kSequences, 0);
  server.AwaitMetric(kUsedPages, 0);
}

TEST_P(SequenceSessionTest, FailuresKeepTheirCodes) {
  ServerConfig config = Config(Profile(8));
  // An answer may be here before gRPC has told the server that it has gone out: no reason to break the stream a day
  // later.
  config.attend.send_timeout = absl::Hours(48);
  TestServer server("run@1=internal", std::move(config));
  const std::unique_ptr<SequenceSession> session = Connect(Target(server));
  SequenceClient rows = Rows(server);
  EXPECT_EQ(session->Create("no such").status().code(), absl::StatusCode::kInvalidArgument);
  std::deque<Kept> kept = Create(*session, 2);
  Call failing(rows, {{&kept[0]}});
  failing.Run(*session);
  EXPECT_EQ(failing.Await().status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(kept[0].resident.Get()->lengths(0), 0u) << "a step that fails leaves no trace";
  Extend(*session, rows, {{&kept[0]}});  // waits until the device has let go of the step
  EXPECT_EQ(kept[0].resident.Truncate(2).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(kept[0].resident.Fork(2).status().code(), absl::StatusCode::kInvalidArgument);
  Call bad_layer(rows, {{&kept[0]}});
  bad_layer.call().steps[0].layer = 2;
  bad_layer.Run(*session);
  EXPECT_EQ(bad_layer.Await().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bad_layer.Await().status().message()), HasSubstr("layer"));

  // Leases: nothing has used the sequences for as long as they live.
  server.clock().Advance(absl::Hours(24));
  Call late(rows, {{&kept[0]}});
  late.Run(*session);
  EXPECT_EQ(late.Await().status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(kept[1].resident.Get().status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(kept[1].resident.Release().ok());
}

TEST_P(SequenceSessionTest, WhatTheTensorsAndSequencesSayIsCheckedHere) {
  TestServer server("", Config());
  const std::unique_ptr<SequenceSession> session = Connect(Target(server));
  const std::unique_ptr<SequenceSession> other = Connect(Target(server));
  SequenceClient rows = Rows(server);
  std::deque<Kept> kept = Create(*session, 2);
  std::deque<Kept> foreign = Create(*other, 1);
  const std::pair<const char*, std::function<void(ExtendCall*)>> cases[] = {
      {"no steps", [](ExtendCall* call) { call->steps.clear(); }},
      {"no sequence", [](ExtendCall* call) { call->steps[0].sequence = nullptr; }},
      {"q_heads", [](ExtendCall* call) { call->q_heads = 0; }},
      {"q has", [](ExtendCall* call) { call->steps[0].q.remove_suffix(1); }},
      {"k has", [](ExtendCall* call) { call->steps[0].k.remove_suffix(1); }},
      {"v has", [](ExtendCall* call) { call->steps[0].v = {}; }},
      {"o has", [](ExtendCall* call) { call->steps[0].o.remove_suffix(1); }},
      {"lse has", [](ExtendCall* call) { call->options.set_return_lse(false); }},
      {"not where", [&](ExtendCall* call) { call->steps[1].sequence = &foreign[0].resident; }},
      {"of this session", [&](ExtendCall* call) { call->steps[0].sequence = &foreign[0].resident; }},
  };
  for (const auto& [what, spoil] : cases) {
    Call call(rows, {{&kept[0]}, {&kept[1]}});
    spoil(&call.call());
    call.Run(*session);
    EXPECT_EQ(call.Await().status().code(), absl::StatusCode::kInvalidArgument) << what;
    EXPECT_THAT(std::string(call.Await().status().message()), HasSubstr(what));
  }
  ClientOptions every;
  every.every_address = true;
  EXPECT_EQ(SequenceSession::Connect("localhost:1", every).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SequenceSession::Connect("a:1,,b:2", {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(SequenceSessionTest, ACallThatIsRefusedTellsWhenToComeAgainAndDoesSo) {
  TestServer server("", Config(Profile(4)));
  ClientOptions options;
  options.retry.max_attempts = 1000;
  const std::unique_ptr<SequenceSession> session = Connect(Target(server), options);
  SequenceClient rows = Rows(server);
  std::deque<Kept> kept = Create(*session, 2);
  Extend(*session, rows, {{&kept[0], 0, 1, 32}});  // all pages
  Call once(rows, {{&kept[1]}});
  once.Start(*session);
  EXPECT_EQ(once.Await().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(RetryAfter(once.Await().status()), absl::ZeroDuration());

  Call patient(rows, {{&kept[1]}});
  patient.call().timeout = absl::Minutes(1);
  std::thread caller([&] { patient.Run(*session); });
  server.AwaitMetrics(
      [](const MetricsReader& metrics) { return metrics["tessera_rejected_total{reason=\"kv_pages\"}"] >= 2; });
  EXPECT_TRUE(kept[0].resident.Release().ok());
  caller.join();
  patient.ExpectRight(rows);
  EXPECT_GT(patient.Await()->attempts, 1);
}

TEST_P(SequenceStreamSessionTest, ACancelledCallIsNotDone) {
  TestServer server("run@1=hang", Config());
  const std::unique_ptr<SequenceSession> session = Connect(Target(server));
  SequenceClient rows = Rows(server);
  std::deque<Kept> kept = Create(*session, 2);
  Call running(rows, {{&kept[0]}}), waiting(rows, {{&kept[1]}});
  running.Start(*session);
  server.device().AwaitBatch(1);
  const CallHandle handle = waiting.Start(*session);
  server.AwaitQueued(1);
  handle.Cancel();
  EXPECT_EQ(waiting.Await().status().code(), absl::StatusCode::kCancelled);
  server.device().Release(1);
  running.Await();
  running.ExpectRight(rows);
  EXPECT_EQ(kept[1].resident.Get()->lengths(0), 0u);
  handle.Cancel();
  Extend(*session, rows, {{&kept[1]}});
}

TEST_P(SequenceSessionTest, DeadlinesAreKeptHere) {
  TestServer server("run@1=hang", Config());
  const std::unique_ptr<SequenceSession> session = Connect(Target(server));
  SequenceClient rows = Rows(server);
  std::deque<Kept> kept = Create(*session, 2);
  Call late(rows, {{&kept[0], 0, 300, 300}});
  late.call().timeout = absl::Seconds(3);  // long enough for any host to get it to the device
  late.Start(*session);
  server.device().AwaitBatch(1);
  EXPECT_EQ(late.Await().status().code(), absl::StatusCode::kDeadlineExceeded);
  // The server's own clock stands still.
  server.AwaitMetrics([](const MetricsReader& metrics) {
    return metrics["tessera_cancelled_total{where=\"run\"}"] + metrics["tessera_expired_total{where=\"run\"}"] == 1;
  });
  server.device().ReleaseAll();
  Extend(*session, rows, {{&kept[0], 0, 2, 2}});
}

TEST_P(SequenceSessionTest, ASessionThatEndsTakesItsCallsWithIt) {
  TestServer server("run@1=hang", Config());
  std::unique_ptr<SequenceSession> session = Connect(Target(server));
  SequenceClient rows = Rows(server);
  std::deque<Kept> kept = Create(*session, 2);
  Call running(rows, {{&kept[0]}}), waiting(rows, {{&kept[1]}});
  running.Start(*session);
  server.device().AwaitBatch(1);
  waiting.Start(*session);
  session.reset();
  EXPECT_EQ(running.Await().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(waiting.Await().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(kept[0].resident.Get().status().code(), absl::StatusCode::kFailedPrecondition);
  server.device().ReleaseAll();
  server.AwaitIdle();
}

TEST_P(SequenceSessionTest, AServerThatGoesIsUnavailable) {
  auto server = std::make_unique<TestServer>("run@1=hang", Config());
  const std::unique_ptr<SequenceSession> session = Connect(Target(*server));
  SequenceClient rows = Rows(*server);
  std::deque<Kept> kept = Create(*session, 1);
  Call running(rows, {{&kept[0]}});
  running.Start(*session);
  server->device().AwaitBatch(1);
  server->device().ReleaseAll();
  server.reset();
  Call after(rows, {{&kept[0]}});
  after.Run(*session);
  EXPECT_EQ(after.Await().status().code(), absl::StatusCode::kUnavailable) << after.Await().status();
  EXPECT_EQ(kept[0].resident.Get().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(session->Create("small").status().code(), absl::StatusCode::kUnavailable);
}

TEST_P(SequenceSessionTest, SequencesAreSpreadOverServersAndStayThere) {
  TestServer one("", Config());
  auto two = std::make_unique<TestServer>("", Config());
  const std::unique_ptr<SequenceSession> session = Connect(absl::StrCat(Target(one), ",", Target(*two)));
  SequenceClient rows = Rows(one);
  std::deque<Kept> kept;
  for (int i = 0; i < 6; ++i) kept.emplace_back(std::move(Create(*session, 1).front()));
  EXPECT_EQ(one.Metrics()[kSequences], 3);
  EXPECT_EQ(two->Metrics()[kSequences], 3);
  for (Kept& sequence : kept) {
    for (int step = 0; step < 3; ++step) Extend(*session, rows, {{&sequence}});
  }
  // They take turns: 0, 2 and 4 are neighbours.
  Extend(*session, rows, {{&kept[0]}, {&kept[2]}, {&kept[4]}});
  Call across(rows, {{&kept[0]}, {&kept[1]}});
  across.Run(*session);
  EXPECT_EQ(across.Await().status().code(), absl::StatusCode::kInvalidArgument);

  two.reset();
  for (int i = 0; i < 3; ++i) kept.emplace_back(std::move(Create(*session, 1).front()));
  EXPECT_EQ(one.Metrics()[kSequences], 6);
  Extend(*session, rows, {{&kept[6]}, {&kept[7]}, {&kept[8]}, {&kept[0]}});
}

TEST_P(SequenceSessionTest, AFullServerIsAskedAgainThoughTheNextOneIsGone) {
  TestServer full("", Config());
  auto gone = std::make_unique<TestServer>("", Config());
  const std::string target = absl::StrCat(Target(full), ",", Target(*gone));
  gone.reset();
  const std::unique_ptr<SequenceSession> other = Connect(Target(full));
  std::deque<Kept> kept = Create(*other, static_cast<uint32_t>(Profile().max_sequences));
  ClientOptions options;
  options.retry.max_attempts = 1000;
  const std::unique_ptr<SequenceSession> session = Connect(target, options);
  absl::StatusOr<std::vector<ResidentSequence>> created;
  std::thread caller([&] { created = session->Create("small", 1, absl::Minutes(1)); });
  full.AwaitMetrics(
      [](const MetricsReader& metrics) { return metrics["tessera_rejected_total{reason=\"kv_pages\"}"] >= 2; });
  kept.pop_back();
  caller.join();
  EXPECT_TRUE(created.ok()) << created.status();
}

TEST_P(SequenceStreamSessionTest, AnyNumberOfStepsMayBeSentAhead) {
  TestServer server("run@1=hang", Config());
  const std::unique_ptr<SequenceSession> session = Connect(Target(server));
  SequenceClient rows = Rows(server);
  std::deque<Kept> kept = Create(*session, 2);
  std::deque<Call> calls;
  const auto ahead = static_cast<int>(ExtendRpc::kMaxOpen) / 2 + 30;
  for (int step = 0; step < ahead; ++step) {
    for (uint32_t layer = 0; layer < 2; ++layer) {
      calls.emplace_back(rows, std::vector<Part>{{&kept[0], layer}, {&kept[1], layer, 1, 1}});
      calls.back().Start(*session);
    }
  }
  server.device().AwaitBatch(1);
  server.device().ReleaseAll();
  for (Call& call : calls) {
    call.Await();
    call.ExpectRight(rows);
  }
}

TEST_P(SequenceStreamSessionTest, StepsSentAheadKeepToTheServersOwnLimit) {
  for (const int64_t limit : {1, 2, 7}) {
    ServerConfig config = Config();
    config.attend.max_stream_calls = limit;
    TestServer server("run@1=hang", config);
    const std::unique_ptr<SequenceSession> session = Connect(Target(server));
    SequenceClient rows = Rows(server);
    std::deque<Kept> kept = Create(*session, 1);
    std::deque<Call> calls;
    for (int step = 0; step < 40; ++step) {
      calls.emplace_back(rows, std::vector<Part>{{&kept[0]}});
      calls.back().Start(*session);
    }
    server.device().AwaitBatch(1);
    server.device().ReleaseAll();
    for (Call& call : calls) {
      call.Await();
      call.ExpectRight(rows);
    }
  }
}

TEST_P(SequenceStreamSessionTest, CallsThatWaitHereCanBeWithdrawn) {
  TestServer server("run@1=hang", Config());
  const std::unique_ptr<SequenceSession> session = Connect(Target(server));
  SequenceClient rows = Rows(server);
  std::deque<Kept> kept = Create(*session, 1);
  std::deque<Call> calls;
  for (size_t i = 0; i < ExtendRpc::kMaxOpen; ++i) {
    calls.emplace_back(rows, std::vector<Part>{{&kept[0]}});
    calls.back().Start(*session);
  }
  server.device().AwaitBatch(1);
  Call cancelled(rows, {{&kept[0], 0, 300, 300}}), late(rows, {{&kept[0], 0, 300, 300}}), last(rows, {{&kept[0]}});
  const CallHandle handle = cancelled.Start(*session);
  late.call().timeout = absl::Milliseconds(20);
  late.Start(*session);
  last.Start(*session);
  handle.Cancel();
  EXPECT_EQ(cancelled.Await().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(late.Await().status().code(), absl::StatusCode::kDeadlineExceeded);
  server.device().ReleaseAll();
  for (Call& call : calls) {
    call.Await();
    call.ExpectRight(rows);
  }
  last.Await();
  last.ExpectRight(rows);
}

TEST_P(SequenceSessionTest, AServerThatComesBackIsUsedAgain) {
  auto server = std::make_unique<TestServer>("", Config());
  const std::string target = Target(*server);
  const std::unique_ptr<SequenceSession> session = Connect(target);
  SequenceClient rows = Rows(*server);
  std::deque<Kept> before = Create(*session, 1);
  Extend(*session, rows, {{&before[0]}});
  server.reset();
  ServerConfig config = Config();
  config.listen = target;
  TestServer again("", config);
  std::optional<Kept> after;
  Await("the connection", [&] {
    absl::StatusOr<std::vector<ResidentSequence>> created = session->Create("small");
    if (created.ok()) after.emplace(std::move(created->front()));
    return created.ok();
  });
  Extend(*session, rows, {{&*after}});
  EXPECT_EQ(before[0].resident.Get().status().code(), absl::StatusCode::kNotFound) << "another process";
}

}  // namespace
}  // namespace tessera
