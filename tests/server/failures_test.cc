// One test for each row of the table of failures in docs/life_of_a_request.md.
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/attend_messages.h"
#include "tests/server/await.h"
#include "tests/server/raw_rpc.h"
#include "tests/server/stream_client.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kAttend[] = "/tessera.v1.AttentionService/Attend";

class FailuresTest : public ::testing::Test {
 protected:
  v1::AttendRequest Small(uint32_t length = 4) { return Request(Header({length}), rng_); }

  std::mt19937_64 rng_{20260131};
};

struct BadRequest {
  std::string name;
  std::string names;  // what the message must name
  std::function<void(v1::AttendRequest&)> change;
};

class BadRequestTest : public ::testing::TestWithParam<BadRequest> {
 protected:
  static void SetUpTestSuite() { server_ = new TestServer(); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  static TestServer* server_;
};

TestServer* BadRequestTest::server_ = nullptr;

TEST_P(BadRequestTest, IsInvalidArgumentNamingTheField) {
  const double rejected = server_->Metrics()["tessera_rejected_total{reason=\"invalid\"}"];
  std::mt19937_64 rng(7);
  v1::AttendRequest request = Request(Header({4, 3}), rng);
  GetParam().change(request);
  UnaryCall call(server_->attention(), request);
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::INVALID_ARGUMENT) << call.Await().error_message();
  EXPECT_THAT(call.Await().error_message(), HasSubstr(GetParam().names));
  EXPECT_THAT(call.Await().error_message(), Not(HasSubstr("0x"))) << "an address";
  EXPECT_EQ(server_->Metrics()["tessera_rejected_total{reason=\"invalid\"}"], rejected + 1);
  server_->AwaitIdle();
}

using R = v1::AttendRequest;
INSTANTIATE_TEST_SUITE_P(
    , BadRequestTest,
    ::testing::Values(
        BadRequest{"NoHeader", "header", [](R& r) { r.clear_header(); }},
        BadRequest{"NoDType", "dtype", [](R& r) { r.mutable_header()->clear_dtype(); }},
        BadRequest{"UnknownDType", "dtype", [](R& r) { r.mutable_header()->set_dtype(static_cast<v1::DataType>(77)); }},
        BadRequest{"NoHeads", "q_heads", [](R& r) { r.mutable_header()->set_q_heads(0); }},
        BadRequest{"HeadsNotAMultiple", "heads", [](R& r) { r.mutable_header()->set_kv_heads(3); }},
        BadRequest{"TooManyHeads", "heads", [](R& r) { r.mutable_header()->set_q_heads(100000); }},
        BadRequest{"OddHeadDim", "head_dim", [](R& r) { r.mutable_header()->set_head_dim(17); }},
        BadRequest{"LargeHeadDim", "head_dim", [](R& r) { r.mutable_header()->set_head_dim(264); }},
        BadRequest{"NoSequences", "lengths", [](R& r) { r.mutable_header()->clear_q_lengths(); }},
        BadRequest{"OneKvLengthTooFew", "kv_lengths", [](R& r) { r.mutable_header()->add_kv_lengths(7); }},
        BadRequest{"HugeLength", "lengths", [](R& r) { r.mutable_header()->set_q_lengths(0, 0xffffffffu); }},
        BadRequest{"ShortQ", "q:", [](R& r) { r.mutable_q()->pop_back(); }},
        BadRequest{"LongK", "k:", [](R& r) { r.mutable_k()->push_back('x'); }},
        BadRequest{"NoV", "v:", [](R& r) { r.clear_v(); }},
        BadRequest{"NanScale", "scale", [](R& r) { r.mutable_header()->mutable_options()->set_scale(0.0f / 0.0f); }},
        BadRequest{"NegativeSoftcap", "softcap", [](R& r) { r.mutable_header()->mutable_options()->set_softcap(-1); }},
        BadRequest{"UnknownMask", "mask",
                   [](R& r) {
                     r.mutable_header()->mutable_options()->mutable_mask()->set_kind(static_cast<v1::MaskKind>(9));
                   }},
        BadRequest{"NegativeWindow", "window_left",
                   [](R& r) {
                     v1::Mask& mask = *r.mutable_header()->mutable_options()->mutable_mask();
                     mask.set_kind(v1::MASK_KIND_WINDOW);
                     mask.set_window_left(-2);
                   }},
        BadRequest{"WindowWithoutWindow", "window",
                   [](R& r) { r.mutable_header()->mutable_options()->mutable_mask()->set_window_right(1); }},
        BadRequest{"UnknownPriority", "priority",
                   [](R& r) { r.mutable_header()->mutable_options()->set_priority(static_cast<v1::Priority>(8)); }}),
    [](const auto& param) { return param.param.name; });

TEST_F(FailuresTest, LengthsWhoseSizesOverflowAreInvalidArgument) {
  constexpr uint32_t kLongest = 0xffffffffu;
  ServerConfig config = TestServer::Config();
  config.attend.request.max_sequences = 65536;
  config.attend.request.max_sequence_tokens = kLongest;
  TestServer server("", config);
  // 2^16 sequences of 2^32 tokens of 2^8 heads of 2^8 floats: 2^66 bytes of q alone.
  v1::AttendRequest request;
  *request.mutable_header() = Header(std::vector<uint32_t>(65536, kLongest), 256, 256);
  UnaryCall call(server.attention(), request);
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::INVALID_ARGUMENT) << call.Await().error_message();
  EXPECT_THAT(call.Await().error_message(), HasSubstr("take more bytes than")) << "the sum has no number";
}

TEST_F(FailuresTest, MalformedMessageIsInvalidArgument) {
  TestServer server;
  const std::string good = Small().SerializeAsString();
  for (const std::string& bytes :
       {std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), good.substr(0, good.size() - 1),
        std::string("\x0a\xff\xff\xff\xff\x0f"), std::string("\x6a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")}) {
    std::string response;
    EXPECT_EQ(RawCall(server.channel(), kAttend, bytes, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"invalid\"}"], 4);
  server.AwaitIdle();
}

TEST_F(FailuresTest, OverlongTenantIsInvalidArgument) {
  TestServer server;
  UnaryCall call(server.attention(), Small(), std::string(65, 't'));
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(call.Await().error_message(), HasSubstr("tessera-tenant"));
  UnaryCall longest(server.attention(), Small(), std::string(64, 't'));
  EXPECT_TRUE(longest.Await().ok());
}

TEST_F(FailuresTest, CallThatNeverFitsIsInvalidArgumentNamingTheLimit) {
  ServerConfig config = TestServer::Config();
  config.attend.request.max_request_bytes = 100 << 10;
  TestServer server("", config);
  UnaryCall call(server.attention(), Request(Header({1024}), rng_));
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(call.Await().error_message(), HasSubstr("102400"));
}

TEST_F(FailuresTest, CallLargerThanStagingIsInvalidArgument) {
  ServerConfig config = TestServer::Config();
  config.staging_bytes = 1 << 20;
  TestServer server("", config);
  // 3 MiB of q, k, v.
  UnaryCall call(server.attention(), Request(Header({8192}), rng_));
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::INVALID_ARGUMENT) << call.Await().error_message();
  server.AwaitIdle();
}

TEST_F(FailuresTest, MessageAndCallThatNeverFitTogetherAreInvalidArgument) {
  ServerConfig config = TestServer::Config();
  config.max_inflight_bytes = 1 << 20;
  TestServer server("", config);
  // A message of 576 KiB for a call of 768 KiB.
  UnaryCall call(server.attention(), Request(Header({1536}), rng_));
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::INVALID_ARGUMENT) << call.Await().error_message();
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"invalid\"}"], 1);
  server.AwaitIdle();
}

TEST_F(FailuresTest, CallThatTheQueueNeverHoldsIsInvalidArgumentAndCounted) {
  ServerConfig config = TestServer::Config();
  config.scheduler.max_queue_bytes = 2100;  // 2048 bytes of tensors fit, what the server keeps of the sequence does not
  TestServer server("", config);
  UnaryCall call(server.attention(), Small());
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::INVALID_ARGUMENT) << call.Await().error_message();
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"invalid\"}"], 1);
  server.AwaitIdle();
}

TEST_F(FailuresTest, MessageAboveTheLimitIsInvalidArgumentNamingIt) {
  ServerConfig config = TestServer::Config();
  config.max_message_bytes = 300 << 10;
  TestServer server("", config);
  // 384 KiB of q, k, v.
  UnaryCall call(server.attention(), Request(Header({1024}), rng_));
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(call.Await().error_message(), HasSubstr("max_message_bytes = 307200"));
  EXPECT_EQ(call.RetryPushback(), "");
  // A stream ends the call, and goes on.
  StreamClient stream(server.attention());
  stream.Send(StreamMessages(1, Request(Header({1024}), rng_), 1 << 20));
  const StreamedAnswer refused = stream.Await(1);
  EXPECT_EQ(refused.status.code(), static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
  EXPECT_THAT(refused.status.message(), HasSubstr("max_message_bytes"));
  stream.Send(StreamMessages(2, Request(Header({1024}), rng_), 64 << 10));
  EXPECT_EQ(stream.Await(2).status.code(), 0);
  server.AwaitIdle();
}

TEST_F(FailuresTest, MessageFarAboveTheLimitIsRefusedByTheTransport) {
  ServerConfig config = TestServer::Config();
  config.max_message_bytes = 64 << 10;
  TestServer server("", config);
  UnaryCall call(server.attention(), Request(Header({1024}), rng_));
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(call.RetryPushback(), "");
  UnaryCall small(server.attention(), Small());
  EXPECT_TRUE(small.Await().ok());
}

TEST_F(FailuresTest, FullQueueIsResourceExhaustedWithPushback) {
  ServerConfig config = TestServer::Config();
  config.scheduler.max_queue_jobs = 2;
  TestServer server("run@1=hang", config);
  UnaryCall running(server.attention(), Small());
  server.device().AwaitBatch(1);
  UnaryCall first(server.attention(), Small());
  UnaryCall second(server.attention(), Small());
  server.AwaitQueued(2);
  UnaryCall refused(server.attention(), Small());
  EXPECT_EQ(refused.Await().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_GE(std::atoi(refused.RetryPushback().c_str()), 1);
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"queue\"}"], 1);
  server.device().ReleaseAll();
  EXPECT_TRUE(running.Await().ok());
  EXPECT_TRUE(first.Await().ok());
  EXPECT_TRUE(second.Await().ok());
}

TEST_F(FailuresTest, FullQueueInBytesIsResourceExhausted) {
  ServerConfig config = TestServer::Config();
  config.scheduler.max_queue_bytes = 3000;
  TestServer server("run@1=hang", config);
  UnaryCall running(server.attention(), Small());
  server.device().AwaitBatch(1);
  UnaryCall first(server.attention(), Small());  // 2048 bytes of q, k, v and o
  server.AwaitQueued(1);
  UnaryCall refused(server.attention(), Small());
  EXPECT_EQ(refused.Await().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.RetryPushback(), "");
  server.device().ReleaseAll();
  EXPECT_TRUE(first.Await().ok());
}

TEST_F(FailuresTest, FullByteBudgetIsResourceExhaustedWithPushback) {
  ServerConfig config = TestServer::Config();
  config.max_inflight_bytes = 2 << 20;
  TestServer server("run@1=hang", config);
  UnaryCall holder(server.attention(), Request(Header({2048}), rng_));  // 1 MiB of q, k, v and o
  server.device().AwaitBatch(1);
  UnaryCall refused(server.attention(), Request(Header({2048}), rng_));
  EXPECT_EQ(refused.Await().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_GE(std::atoi(refused.RetryPushback().c_str()), 25) << "nothing waits, but memory does not come back at once";
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"byte_budget\"}"], 1);
  UnaryCall small(server.attention(), Small());
  server.device().ReleaseAll();
  EXPECT_TRUE(holder.Await().ok());
  EXPECT_TRUE(small.Await().ok());
  server.AwaitIdle();
  UnaryCall again(server.attention(), Request(Header({2048}), rng_));
  EXPECT_TRUE(again.Await().ok()) << again.Await().error_message();
}

TEST_F(FailuresTest, FullStagingIsResourceExhaustedWithPushback) {
  ServerConfig config = TestServer::Config();
  config.staging_bytes = 1536 << 10;
  TestServer server("run@1=hang", config);
  UnaryCall holder(server.attention(), Request(Header({2048}), rng_));
  server.device().AwaitBatch(1);
  UnaryCall refused(server.attention(), Request(Header({2048}), rng_));
  EXPECT_EQ(refused.Await().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.RetryPushback(), "");
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"staging\"}"], 1);
  server.device().ReleaseAll();
  EXPECT_TRUE(holder.Await().ok());
}

TEST_F(FailuresTest, FailingAllocationIsResourceExhausted) {
  TestServer server("stage@1=resource_exhausted");
  UnaryCall refused(server.attention(), Small());
  EXPECT_EQ(refused.Await().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.RetryPushback(), "");
  UnaryCall next(server.attention(), Small());
  EXPECT_TRUE(next.Await().ok());
}

TEST_F(FailuresTest, RecoverableDeviceErrorIsResourceExhaustedAndTheServerGoesOn) {
  TestServer server("run@1=resource_exhausted");
  UnaryCall failed(server.attention(), Small());
  EXPECT_EQ(failed.Await().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(failed.RetryPushback(), "");
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"device_memory\"}"], 1);
  EXPECT_TRUE(server.Serving());
  UnaryCall next(server.attention(), Small());
  ASSERT_TRUE(next.Await().ok());
  EXPECT_LT(Error(next.request(), next.response().o()), 1e-5);
}

TEST_F(FailuresTest, OneCallsFailureDoesNotReachItsBatchNeighbours) {
  // Batch 1 holds the slot; batch 2 has three calls and fails, so each runs again alone, and the second of them fails.
  TestServer server("run@1=hang; run@2=internal; run@4=internal");
  UnaryCall holder(server.attention(), Small());
  server.device().AwaitBatch(1);
  std::vector<std::unique_ptr<UnaryCall>> calls;
  for (uint32_t i = 0; i < 3; ++i) {
    calls.push_back(std::make_unique<UnaryCall>(server.attention(), Small()));
    server.AwaitQueued(i + 1);
  }
  server.device().ReleaseAll();
  ASSERT_TRUE(calls[0]->Await().ok());
  EXPECT_LT(Error(calls[0]->request(), calls[0]->response().o()), 1e-5);
  EXPECT_EQ(calls[1]->Await().error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"internal\"}"], 1);
  ASSERT_TRUE(calls[2]->Await().ok());
  EXPECT_LT(Error(calls[2]->request(), calls[2]->response().o()), 1e-5);
}

TEST_F(FailuresTest, StickyDeviceErrorIsUnavailableAndHealthSaysNotServing) {
  TestServer server("run@1=hang; run@2=sticky");
  UnaryCall first(server.attention(), Small());
  server.device().AwaitBatch(1);
  UnaryCall doomed(server.attention(), Small());
  server.AwaitQueued(1);
  server.device().Release(1);
  EXPECT_TRUE(first.Await().ok());
  EXPECT_EQ(doomed.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(server.Serving());
  EXPECT_FALSE(server.Serving("tessera.v1.AttentionService"));
  EXPECT_FALSE(server.AwaitFatal().ok());
  UnaryCall late(server.attention(), Small());
  EXPECT_EQ(late.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(late.Await().error_message(), "device lost");
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"draining\"}"], 2);
}

TEST_F(FailuresTest, LostDeviceEndsCallsThatAreStillBeingReceived) {
  TestServer server("run@1=sticky");
  StreamClient stream(server.attention());
  const std::vector<v1::AttendStreamRequest> messages = StreamMessages(1, Small(), 512);
  ASSERT_GT(messages.size(), 1u);
  stream.Send(messages[0]);
  server.AwaitOccupancy([](const v1::Occupancy& occupancy) { return occupancy.staging_used_bytes() > 0; });
  UnaryCall doomed(server.attention(), Small());
  const StreamedAnswer answer = stream.Await(1);
  EXPECT_EQ(answer.status.code(), static_cast<int>(grpc::StatusCode::UNAVAILABLE));
  EXPECT_EQ(answer.status.message(), "device lost");
  stream.Send(messages[1]);  // of a call that has ended: dropped
  stream.Send(StreamMessages(2, Small(), 4096));
  EXPECT_EQ(stream.Await(2).status.message(), "device lost");
  EXPECT_EQ(doomed.Await().error_message(), "device lost");
}

TEST_F(FailuresTest, HungDeviceIsUnavailableForAllInFlight) {
  ServerConfig config = TestServer::Config();
  config.engine.hang_timeout = absl::Seconds(5);
  TestServer server("run@1=hang", config);
  UnaryCall hung(server.attention(), Small());
  server.device().AwaitBatch(1);
  UnaryCall waiting(server.attention(), Small());
  server.AwaitQueued(1);
  Await("the hanging call's end", [&] {
    server.clock().Advance(absl::Seconds(1));
    return hung.done();
  });
  EXPECT_EQ(hung.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(waiting.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(server.AwaitFatal().ok());
  EXPECT_FALSE(server.Serving());
  server.device().ReleaseAll();
}

TEST_F(FailuresTest, DrainingIsUnavailableAfterHealthSaidNotServing) {
  TestServer server("run@1=hang");
  UnaryCall admitted(server.attention(), Small());
  server.device().AwaitBatch(1);
  server.server().StopAccepting();
  EXPECT_FALSE(server.Serving());
  UnaryCall in_grace(server.attention(), Small());
  server.AwaitQueued(1);
  std::thread drain([&] { EXPECT_TRUE(server.server().Drain(absl::Seconds(30))); });
  server.clock().AwaitWaiter(server.clock().Now() + absl::Seconds(30));
  UnaryCall refused(server.attention(), Small());
  EXPECT_EQ(refused.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"draining\"}"], 1);
  server.device().ReleaseAll();
  EXPECT_TRUE(admitted.Await().ok());
  EXPECT_TRUE(in_grace.Await().ok());
  drain.join();
}

TEST_F(FailuresTest, DrainAbortsWhatOutlastsItsTimeout) {
  TestServer server("run@1=hang");
  UnaryCall running(server.attention(), Small());
  server.device().AwaitBatch(1);
  UnaryCall waiting(server.attention(), Small());
  server.AwaitQueued(1);
  std::thread drain([&] { EXPECT_FALSE(server.server().Drain(absl::Seconds(30))); });
  server.clock().AwaitWaiter(server.clock().Now() + absl::Seconds(30));
  server.clock().Advance(absl::Seconds(30));
  EXPECT_EQ(waiting.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
  server.device().ReleaseAll();
  EXPECT_TRUE(running.Await().ok());
  drain.join();
}

TEST_F(FailuresTest, ErrorsNameNoOtherTenantAndNoAddress) {
  ServerConfig config = TestServer::Config();
  config.scheduler.max_queue_jobs = 1;
  TestServer server("run@1=hang", config);
  UnaryCall running(server.attention(), Small(), "secret-tenant");
  server.device().AwaitBatch(1);
  UnaryCall waiting(server.attention(), Small(), "secret-tenant");
  server.AwaitQueued(1);
  UnaryCall refused(server.attention(), Small(), "other");
  EXPECT_EQ(refused.Await().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.Await().error_message(), Not(AnyOf(HasSubstr("secret"), HasSubstr("0x"), HasSubstr("127.0"))));
  server.device().ReleaseAll();
}

}  // namespace
}  // namespace tessera::testing
