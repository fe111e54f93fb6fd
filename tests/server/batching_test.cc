// What the network sees of batching: who shares a batch, who goes first, and that sharing changes nothing.
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "tests/server/attend_messages.h"
#include "tests/server/await.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

class BatchingTest : public ::testing::Test {
 protected:
  v1::AttendRequest Small(uint32_t length = 4) { return Request(Header({length}), rng_); }

  // Sends the requests while a call holds the only slot, so that all of them wait when it comes free.
  std::vector<std::unique_ptr<UnaryCall>> SendWhileBusy(TestServer& server,
                                                        const std::vector<v1::AttendRequest>& requests,
                                                        const std::vector<std::string>& tenants = {}) {
    UnaryCall holder(server.attention(), Request(Header({1}, 1, 8), rng_));
    server.device().AwaitBatch(1);
    std::vector<std::unique_ptr<UnaryCall>> calls;
    for (size_t i = 0; i < requests.size(); ++i) {
      calls.push_back(std::make_unique<UnaryCall>(server.attention(), requests[i], tenants.empty() ? "" : tenants[i]));
      server.AwaitQueued(static_cast<uint32_t>(i + 1));
    }
    server.device().Release(1);
    EXPECT_TRUE(holder.Await().ok());
    for (const auto& call : calls) EXPECT_TRUE(call->Await().ok()) << call->Await().error_message();
    return calls;
  }

  std::mt19937_64 rng_{51};
};

TEST_F(BatchingTest, WaitingCallsShareOneBatch) {
  TestServer server("run@1=hang");
  std::vector<v1::AttendRequest> requests;
  for (uint32_t i = 0; i < 8; ++i) requests.push_back(Small(1 + i * 3));
  const auto calls = SendWhileBusy(server, requests);
  for (const auto& call : calls) {
    EXPECT_EQ(call->response().result().timing().batch_requests(), 8u);
    EXPECT_LT(Error(call->request(), call->response().o()), 1e-5);
  }
  EXPECT_EQ(server.Metrics()["tessera_batches_total{kernel=\"cpu\"}"], 2);
  EXPECT_EQ(server.Metrics()["tessera_batch_requests_sum"], 9);
}

TEST_F(BatchingTest, OneRequestABatchTurnsItOff) {
  ServerConfig config = TestServer::Config();
  config.scheduler.max_batch_jobs = 1;
  TestServer server("run@1=hang", config);
  const auto calls = SendWhileBusy(server, {Small(), Small(), Small()});
  for (const auto& call : calls) EXPECT_EQ(call->response().result().timing().batch_requests(), 1u);
}

TEST_F(BatchingTest, IncompatibleCallsDoNotShare) {
  TestServer server("run@1=hang");
  v1::AttendRequest causal = Small();
  causal.mutable_header()->mutable_options()->mutable_mask()->set_kind(v1::MASK_KIND_CAUSAL);
  v1::AttendRequest scaled = Small();
  scaled.mutable_header()->mutable_options()->set_scale(0.5f);
  const auto calls = SendWhileBusy(server, {Small(), causal, scaled, Request(Header({4}, 4, 8), rng_), Small()});
  EXPECT_EQ(calls[0]->response().result().timing().batch_requests(), 2u);
  EXPECT_EQ(calls[1]->response().result().timing().batch_requests(), 1u);
  EXPECT_EQ(calls[2]->response().result().timing().batch_requests(), 1u);
  EXPECT_EQ(calls[3]->response().result().timing().batch_requests(), 1u);
  EXPECT_EQ(calls[4]->response().result().timing().batch_requests(), 2u);
}

TEST_F(BatchingTest, AnswersAreTheSameBitsAloneAndInABatch) {
  std::vector<v1::AttendRequest> requests;
  for (uint32_t i = 0; i < 6; ++i) {
    requests.push_back(Small(5 + 37 * i));
    requests.back().mutable_header()->mutable_options()->set_return_lse(true);
  }
  TestServer server("run@1=hang");
  const auto batched = SendWhileBusy(server, requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_EQ(batched[i]->response().result().timing().batch_requests(), 6u);
    UnaryCall alone(server.attention(), requests[i]);
    ASSERT_TRUE(alone.Await().ok());
    ASSERT_EQ(alone.response().result().timing().batch_requests(), 1u);
    EXPECT_TRUE(alone.response().o() == batched[i]->response().o()) << "call " << i;
    EXPECT_TRUE(alone.response().lse() == batched[i]->response().lse()) << "call " << i;
    EXPECT_FALSE(alone.response().lse().empty());
  }
}

TEST_F(BatchingTest, NanStaysInItsOwnCall) {
  TestServer server("run@1=hang");
  v1::AttendRequest poisoned = Small(16);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::string* tensor : {poisoned.mutable_q(), poisoned.mutable_k(), poisoned.mutable_v()}) {
    for (size_t i = 0; i < tensor->size(); i += sizeof(nan)) std::memcpy(&(*tensor)[i], &nan, sizeof(nan));
  }
  const auto calls = SendWhileBusy(server, {Small(16), poisoned, Small(16)});
  ASSERT_EQ(calls[1]->response().result().timing().batch_requests(), 3u);
  EXPECT_LT(Error(calls[0]->request(), calls[0]->response().o()), 1e-5);
  EXPECT_LT(Error(calls[2]->request(), calls[2]->response().o()), 1e-5);
  for (const float value : Floats(calls[1]->response().o())) EXPECT_TRUE(std::isnan(value));
}

TEST_F(BatchingTest, TenantsTakeTurnsWhateverTheySend) {
  // One batch holds one call, so the order of batches is the order of turns. The greedy tenant's calls came first.
  ServerConfig config = TestServer::Config();
  config.scheduler.max_batch_jobs = 1;
  config.scheduler.fair_quantum = 1;
  std::string hang_each;
  for (int batch = 1; batch <= 9; ++batch) hang_each += "run@" + std::to_string(batch) + "=hang;";
  TestServer server(hang_each, config);
  std::vector<v1::AttendRequest> requests;
  std::vector<std::string> tenants;
  for (int i = 0; i < 8; ++i) {
    requests.push_back(Small());
    tenants.push_back(i < 6 ? "greedy" : "modest");
  }
  UnaryCall holder(server.attention(), Request(Header({1}, 1, 8), rng_));
  server.device().AwaitBatch(1);
  std::vector<std::unique_ptr<UnaryCall>> calls;
  absl::Mutex mutex;
  std::vector<std::string> order;
  for (size_t i = 0; i < requests.size(); ++i) {
    calls.push_back(
        std::make_unique<UnaryCall>(server.attention(), requests[i], tenants[i], absl::InfiniteDuration(), [&, i] {
          absl::MutexLock lock(&mutex);
          order.push_back(tenants[i]);
        }));
    server.AwaitQueued(static_cast<uint32_t>(i + 1));
  }
  server.device().Release(1);
  // One by one, for answers that leave together may arrive in any order.
  for (size_t ended = 1; ended <= calls.size(); ++ended) {
    server.device().Release(static_cast<int64_t>(1 + ended));
    Await("the next call's end", [&] {
      absl::MutexLock lock(&mutex);
      return order.size() == ended;
    });
  }
  for (const auto& call : calls) EXPECT_TRUE(call->Await().ok());
  absl::MutexLock lock(&mutex);
  ASSERT_EQ(order.size(), 8u);
  // Both modest calls are among the first five: turns alternate, but for who begins.
  int modest = 0;
  for (int i = 0; i < 5; ++i) modest += order[static_cast<size_t>(i)] == "modest";
  EXPECT_EQ(modest, 2);
}

TEST_F(BatchingTest, HighPriorityGoesFirst) {
  ServerConfig config = TestServer::Config();
  config.scheduler.max_batch_jobs = 1;
  TestServer server("run@1=hang; run@2=hang", config);
  UnaryCall holder(server.attention(), Small());
  server.device().AwaitBatch(1);
  UnaryCall normal(server.attention(), Small());
  server.AwaitQueued(1);
  v1::AttendRequest urgent_request = Small();
  urgent_request.mutable_header()->mutable_options()->set_priority(v1::PRIORITY_HIGH);
  UnaryCall urgent(server.attention(), urgent_request);
  server.AwaitQueued(2);
  server.device().Release(1);
  server.device().AwaitBatch(2);
  EXPECT_FALSE(normal.done());
  EXPECT_EQ(server.Info().occupancy().queue_requests(), 1u);
  // Whoever is in batch 2 ends when it is released; the other one waits behind.
  normal.Cancel();
  EXPECT_EQ(normal.Await().error_code(), grpc::StatusCode::CANCELLED);
  server.AwaitMetric("tessera_cancelled_total{where=\"queue\"}", 1);
  server.device().ReleaseAll();
  EXPECT_TRUE(urgent.Await().ok());
}

TEST_F(BatchingTest, ZeroLengthsAreLegal) {
  TestServer server;
  v1::AttendRequest request = Request(Header({0, 3, 0}), rng_);
  request.mutable_header()->mutable_options()->set_return_lse(true);
  UnaryCall call(server.attention(), request);
  ASSERT_TRUE(call.Await().ok()) << call.Await().error_message();
  EXPECT_LT(Error(request, call.response().o()), 1e-5);
  UnaryCall empty(server.attention(), Request(Header({0}), rng_));
  ASSERT_TRUE(empty.Await().ok()) << empty.Await().error_message();
  EXPECT_TRUE(empty.response().o().empty());
  // Rows without keys: zeros.
  v1::AttendRequest keyless = Request(Header({2}), rng_);
  keyless.mutable_header()->add_kv_lengths(0);
  keyless.clear_k();
  keyless.clear_v();
  UnaryCall zeros(server.attention(), keyless);
  ASSERT_TRUE(zeros.Await().ok()) << zeros.Await().error_message();
  EXPECT_EQ(zeros.response().o(), std::string(QBytes(keyless.header()), '\0'));
}

TEST_F(BatchingTest, GroupedQueriesAndRaggedLengths) {
  TestServer server;
  v1::AttendHeader header = Header({5, 1, 9}, 4, 32);
  header.set_kv_heads(2);
  for (const uint32_t length : {7u, 3u, 9u}) header.add_kv_lengths(length);
  UnaryCall call(server.attention(), Request(header, rng_));
  ASSERT_TRUE(call.Await().ok()) << call.Await().error_message();
  EXPECT_LT(Error(call.request(), call.response().o()), 1e-5);
}

}  // namespace
}  // namespace tessera::testing
