// AttendStream: many calls at once, in any order, in chunks; and what a client may do wrong.
#include <algorithm>
#include <string>
#include <thread>
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

using ::testing::HasSubstr;

constexpr int kInvalidArgument = static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT);
constexpr int kResourceExhausted = static_cast<int>(grpc::StatusCode::RESOURCE_EXHAUSTED);
constexpr char kInvalid[] = "tessera_rejected_total{reason=\"invalid\"}";

class StreamTest : public ::testing::Test {
 protected:
  v1::AttendRequest Small(uint32_t length = 4) { return Request(Header({length}), rng_); }

  std::mt19937_64 rng_{61};
};

TEST_F(StreamTest, SmallAnswerIsOneMessage) {
  TestServer server;
  StreamClient stream(server.attention());
  const v1::AttendRequest request = Small();
  stream.Send(StreamMessages(7, request, 1 << 20));
  const StreamedAnswer answer = stream.Await(7);
  EXPECT_EQ(answer.status.code(), 0) << answer.status.message();
  EXPECT_EQ(answer.messages, 1);
  ASSERT_TRUE(answer.result.has_value());
  EXPECT_EQ(answer.result->o_bytes(), answer.payload.size());
  EXPECT_LT(Error(request, answer.payload), 1e-5);
  stream.HalfClose();
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(StreamTest, ChunksMayComeInAnyOrderAndSize) {
  TestServer server;
  StreamClient stream(server.attention());
  for (int round = 0; round < 10; ++round) {
    const v1::AttendRequest request = Small(33);
    std::vector<v1::AttendStreamRequest> messages = StreamMessages(1, request, 64 + rng_() % 4000);
    std::shuffle(messages.begin() + 1, messages.end(), rng_);
    // The header need not come with bytes.
    v1::AttendStreamRequest opening;
    opening.set_id(1);
    *opening.mutable_header() = messages[0].header();
    messages[0].clear_header();
    stream.Send(opening);
    std::shuffle(messages.begin(), messages.end(), rng_);
    stream.Send(messages);
    const StreamedAnswer answer = stream.Await(1);
    ASSERT_EQ(answer.status.code(), 0) << answer.status.message();
    EXPECT_LT(Error(request, answer.payload), 1e-5);
  }
}

TEST_F(StreamTest, LargeAnswerComesInChunksWithLseBehindO) {
  ServerConfig config = TestServer::Config();
  config.attend.chunk_bytes = 1000;
  TestServer server("", config);
  StreamClient stream(server.attention());
  v1::AttendRequest request = Small(50);
  request.mutable_header()->mutable_options()->set_return_lse(true);
  stream.Send(StreamMessages(1, request, 1 << 20));
  const StreamedAnswer answer = stream.Await(1);
  ASSERT_EQ(answer.status.code(), 0);
  const size_t o_bytes = QBytes(request.header());
  EXPECT_EQ(answer.result->o_bytes(), o_bytes);
  EXPECT_EQ(answer.result->lse_bytes(), 50u * 2 * 4);
  EXPECT_EQ(answer.payload.size(), o_bytes + 50 * 2 * 4);
  EXPECT_EQ(answer.messages, 7);
  EXPECT_EQ(answer.begin, 0u);
  EXPECT_TRUE(answer.contiguous);
  EXPECT_LT(Error(request, answer.payload.substr(0, o_bytes)), 1e-5);
}

TEST_F(StreamTest, AnswersComeInTheOrderOfCompletion) {
  TestServer server("run@1=hang");
  StreamClient stream(server.attention());
  v1::AttendRequest low = Small();
  low.mutable_header()->mutable_options()->set_priority(v1::PRIORITY_LOW);
  low.mutable_header()->mutable_options()->set_scale(0.5f);
  UnaryCall holder(server.attention(), Small());
  server.device().AwaitBatch(1);
  stream.Send(StreamMessages(1, low, 4096));
  server.AwaitQueued(1);
  stream.Send(StreamMessages(2, Small(), 4096));
  server.AwaitQueued(2);
  server.device().ReleaseAll();
  stream.HalfClose();
  EXPECT_TRUE(stream.Finish().ok());
  ASSERT_EQ(stream.answers().size(), 2u);
  EXPECT_EQ(stream.answers()[0].first, 2u);
  EXPECT_EQ(stream.answers()[1].first, 1u);
}

TEST_F(StreamTest, SmallAnswerOvertakesALargeOne) {
  ServerConfig config = TestServer::Config();
  config.attend.chunk_bytes = 4096;
  config.staging_bytes = 64 << 20;
  TestServer server("", config);
  StreamClient stream(server.attention());
  v1::AttendHeader header = Header({8192}, 8, 16);               // 4 MiB of o, 1024 chunks
  v1::Mask& narrow = *header.mutable_options()->mutable_mask();  // much to send, little to compute
  narrow.set_kind(v1::MASK_KIND_WINDOW);
  narrow.set_window_left(1);
  const v1::AttendRequest large = Request(header, rng_);
  stream.Send(StreamMessages(1, large, 1 << 20));
  server.AwaitMetric("tessera_stage_seconds_count{stage=\"queue\"}", 1);
  stream.Send(StreamMessages(2, Small(), 4096));
  // Until this client reads, flow control keeps most of the large answer back.
  server.AwaitMetric("tessera_stage_seconds_count{stage=\"queue\"}", 2);
  EXPECT_EQ(stream.Await(2).status.code(), 0);
  EXPECT_TRUE(stream.answers().empty()) << "the large answer was already complete";
  const StreamedAnswer answer = stream.Await(1);
  EXPECT_EQ(answer.status.code(), 0);
  EXPECT_TRUE(answer.contiguous);
  EXPECT_EQ(answer.payload.size(), QBytes(large.header()));
}

TEST_F(StreamTest, ManyCallsAtOnce) {
  TestServer server;
  StreamClient stream(server.attention());
  std::vector<v1::AttendRequest> requests;
  for (uint64_t id = 0; id < 200; ++id) {
    requests.push_back(Small(1 + id % 17));
    stream.Send(StreamMessages(id, requests.back(), 1 << 20));
  }
  stream.HalfClose();
  for (uint64_t id = 0; id < 200; ++id) {
    const StreamedAnswer answer = stream.Await(id);
    ASSERT_EQ(answer.status.code(), 0) << answer.status.message();
    EXPECT_LT(Error(requests[id], answer.payload), 1e-5);
  }
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(StreamTest, EmptyCallIsAnswered) {
  TestServer server;
  StreamClient stream(server.attention());
  stream.Send(StreamMessages(1, Request(Header({0}), rng_), 1 << 20));
  const StreamedAnswer answer = stream.Await(1);
  EXPECT_EQ(answer.status.code(), 0) << answer.status.message();
  EXPECT_EQ(answer.messages, 1);
  ASSERT_TRUE(answer.result.has_value());
  EXPECT_TRUE(answer.payload.empty());
}

TEST_F(StreamTest, BadCallFailsAloneAndTheStreamGoesOn) {
  TestServer server;
  StreamClient stream(server.attention());
  std::vector<v1::AttendStreamRequest> bad = StreamMessages(1, Small(), 512);
  bad[0].mutable_header()->set_head_dim(9);
  stream.Send(bad);
  const StreamedAnswer refused = stream.Await(1);
  EXPECT_EQ(refused.status.code(), kInvalidArgument);
  EXPECT_THAT(refused.status.message(), HasSubstr("head_dim"));
  EXPECT_FALSE(refused.result.has_value());
  stream.Send(StreamMessages(2, Small(), 512));
  EXPECT_EQ(stream.Await(2).status.code(), 0);
  stream.HalfClose();
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_TRUE(stream.answers().empty());
}

TEST_F(StreamTest, OverlappingChunkFailsTheCall) {
  TestServer server;
  StreamClient stream(server.attention());
  const std::vector<v1::AttendStreamRequest> messages = StreamMessages(1, Small(), 512);
  stream.Send(messages[0]);
  stream.Send(messages[1]);
  stream.Send(messages[1]);
  const StreamedAnswer answer = stream.Await(1);
  EXPECT_EQ(answer.status.code(), kInvalidArgument);
  EXPECT_THAT(answer.status.message(), HasSubstr("payload_offset"));
  server.AwaitIdle();
}

TEST_F(StreamTest, ChunkBeyondThePayloadFailsTheCall) {
  TestServer server;
  StreamClient stream(server.attention());
  for (const uint64_t offset : {uint64_t{1}, uint64_t{1} << 40, ~uint64_t{0}}) {
    std::vector<v1::AttendStreamRequest> messages = StreamMessages(1, Small(), 4096);
    messages[0].set_payload_offset(offset);
    stream.Send(messages);
    EXPECT_EQ(stream.Await(1).status.code(), kInvalidArgument) << offset;
  }
  EXPECT_EQ(server.Metrics()[kInvalid], 3);
  server.AwaitIdle();
}

TEST_F(StreamTest, SecondHeaderForAnOpenIdFailsTheCall) {
  TestServer server;
  StreamClient stream(server.attention());
  const std::vector<v1::AttendStreamRequest> messages = StreamMessages(1, Small(), 512);
  stream.Send(messages[0]);
  stream.Send(messages[0]);
  const StreamedAnswer answer = stream.Await(1);
  EXPECT_EQ(answer.status.code(), kInvalidArgument);
  EXPECT_THAT(answer.status.message(), HasSubstr("id"));
  stream.HalfClose();
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_TRUE(stream.answers().empty()) << "a second answer for one call";
}

TEST_F(StreamTest, ChunksOfNoCallArePassedOver) {
  TestServer server;
  StreamClient stream(server.attention());
  stream.Send(StreamMessages(5, Small(), 512)[1]);
  stream.Send(StreamMessages(1, Small(), 4096));
  EXPECT_EQ(stream.Await(1).status.code(), 0);
  stream.HalfClose();
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_TRUE(stream.answers().empty());
}

TEST_F(StreamTest, HalfCloseBeforeTheLastByteFailsTheCallAndEndsTheStream) {
  TestServer server;
  StreamClient stream(server.attention());
  stream.Send(StreamMessages(1, Small(), 512)[0]);
  stream.HalfClose();
  EXPECT_TRUE(stream.Finish().ok());
  ASSERT_EQ(stream.answers().size(), 1u);
  EXPECT_EQ(stream.answers()[0].second.status.code(), kInvalidArgument);
  server.AwaitIdle();
}

TEST_F(StreamTest, MalformedMessageEndsTheStream) {
  TestServer server;
  std::string response;
  const grpc::Status status =
      RawCall(server.channel(), "/tessera.v1.AttentionService/AttendStream", "\xff\xff\xff", &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(server.Metrics()[kInvalid], 1);
  server.AwaitMetric(
      "grpc_server_handled_total{grpc_code=\"InvalidArgument\",grpc_method=\"AttendStream\","
      "grpc_service=\"tessera.v1.AttentionService\",grpc_type=\"bidi_stream\"}",
      1);
}

TEST_F(StreamTest, CancelWithAHeaderIsRefused) {
  TestServer server;
  StreamClient stream(server.attention());
  v1::AttendStreamRequest message = StreamMessages(1, Small(), 512)[0];
  message.set_cancel(true);
  stream.Send(message);
  EXPECT_EQ(stream.Await(1).status.code(), kInvalidArgument);
  EXPECT_EQ(server.Metrics()[kInvalid], 1);
  // The id is free, and what names no call is passed over.
  stream.SendCancel(1);
  stream.Send(StreamMessages(1, Small(), 512));
  EXPECT_EQ(stream.Await(1).status.code(), 0);
}

TEST_F(StreamTest, StripeWithoutAHeaderIsRefused) {
  TestServer server;
  StreamClient stream(server.attention());
  v1::AttendStreamRequest message;
  message.set_id(1);
  message.mutable_stripe()->set_transfer(std::string(16, 't'));
  message.mutable_stripe()->set_count(2);
  stream.Send(message);
  EXPECT_EQ(stream.Await(1).status.code(), kInvalidArgument) << "of no call";
  stream.Send(StreamMessages(1, Small(), 512)[0]);
  stream.Send(message);
  EXPECT_EQ(stream.Await(1).status.code(), kInvalidArgument) << "of an open call";
  EXPECT_EQ(server.Metrics()[kInvalid], 2);
  server.AwaitIdle();
}

TEST_F(StreamTest, CallsBeyondTheStreamsLimitAreRefusedEachWithARetryTime) {
  ServerConfig config = TestServer::Config();
  config.attend.max_stream_calls = 2;
  TestServer server("run@1=hang", config);
  StreamClient stream(server.attention());
  for (uint64_t id = 1; id <= 3; ++id) stream.Send(StreamMessages(id, Small(), 512));
  const StreamedAnswer refused = stream.Await(3);
  EXPECT_EQ(refused.status.code(), kResourceExhausted);
  EXPECT_GE(refused.status.retry_after_ms(), 25u);
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"stream_calls\"}"], 1);
  server.device().ReleaseAll();
  EXPECT_EQ(stream.Await(1).status.code(), 0);
  EXPECT_EQ(stream.Await(2).status.code(), 0);
  stream.Send(StreamMessages(3, Small(), 512));
  EXPECT_EQ(stream.Await(3).status.code(), 0);
}

TEST_F(StreamTest, RefusedCallTakesNoStaging) {
  ServerConfig config = TestServer::Config();
  config.staging_bytes = 1 << 20;
  TestServer server("run@1=hang", config);
  StreamClient stream(server.attention());
  stream.Send(StreamMessages(1, Request(Header({1536}), rng_), 1 << 20));  // 768 KiB of q, k, v and o
  server.device().AwaitBatch(1);
  stream.Send(StreamMessages(2, Request(Header({1536}), rng_), 64 << 10));
  const StreamedAnswer refused = stream.Await(2);
  EXPECT_EQ(refused.status.code(), kResourceExhausted);
  EXPECT_GE(refused.status.retry_after_ms(), 1u);
  EXPECT_EQ(server.Info().occupancy().staging_used_bytes(), 768u << 10);
  server.device().ReleaseAll();
  EXPECT_EQ(stream.Await(1).status.code(), 0);
  server.AwaitIdle();
}

TEST_F(StreamTest, MessageWithoutBudgetEndsItsCallWithARetryTime) {
  ServerConfig config = TestServer::Config();
  config.max_inflight_bytes = 1280 << 10;
  TestServer server("run@1=hang", config);
  UnaryCall holder(server.attention(), Request(Header({512}), rng_));  // 256 KiB
  server.device().AwaitBatch(1);
  StreamClient stream(server.attention());
  // 768 KiB admitted at the opening; then a message of 300 KiB is one too many.
  const std::vector<v1::AttendStreamRequest> messages = StreamMessages(1, Request(Header({1536}), rng_), 300 << 10);
  v1::AttendStreamRequest opening;
  opening.set_id(1);
  *opening.mutable_header() = messages[0].header();
  stream.Send(opening);
  stream.Send(messages[1]);
  const StreamedAnswer answer = stream.Await(1);
  EXPECT_EQ(answer.status.code(), kResourceExhausted) << answer.status.message();
  EXPECT_GE(answer.status.retry_after_ms(), 25u);
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"byte_budget\"}"], 1);
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"queue\"}"], 0);
  server.device().ReleaseAll();
  EXPECT_TRUE(holder.Await().ok());
  server.AwaitIdle();
}

TEST_F(StreamTest, MessageThatNeverFitsBesideItsCallIsInvalid) {
  ServerConfig config = TestServer::Config();
  config.max_inflight_bytes = 1 << 20;
  TestServer server("", config);
  StreamClient stream(server.attention());
  const std::vector<v1::AttendStreamRequest> messages = StreamMessages(1, Request(Header({1536}), rng_), 300 << 10);
  v1::AttendStreamRequest opening;
  opening.set_id(1);
  *opening.mutable_header() = messages[0].header();
  stream.Send(opening);
  stream.Send(messages[1]);
  EXPECT_EQ(stream.Await(1).status.code(), kInvalidArgument);
  EXPECT_EQ(server.Metrics()[kInvalid], 1);
  server.AwaitIdle();
}

TEST_F(StreamTest, ClientThatDoesNotReadIsNotReadFrom) {
  ServerConfig config = TestServer::Config();
  config.attend.max_outbox_bytes = 8192;
  config.attend.max_stream_calls = 1;
  TestServer server("", config);
  StreamClient stream(server.attention());
  // Refusals pile up unread: the server stops reading long before it has had them all, and none is lost.
  v1::AttendStreamRequest bad;
  *bad.mutable_header() = Header({1});
  bad.mutable_header()->set_head_dim(9);
  constexpr uint64_t kCalls = 3000;
  std::thread sender([&] {
    for (uint64_t id = 1; id <= kCalls; ++id) {
      bad.set_id(id);
      stream.Send(bad);
    }
    stream.HalfClose();
  });
  // Many times as long as it takes them where nothing holds it.
  EXPECT_FALSE(AwaitWithTimeout([&] { return server.Metrics()[kInvalid] == kCalls; }, absl::Seconds(1)));
  EXPECT_TRUE(stream.Finish().ok());
  sender.join();
  EXPECT_EQ(stream.answers().size(), kCalls);
  EXPECT_EQ(server.Metrics()[kInvalid], kCalls);
}

TEST_F(StreamTest, ManyTinyGapsAreRefused) {
  TestServer server;
  StreamClient stream(server.attention());
  const v1::AttendRequest request = Small(64);
  std::vector<v1::AttendStreamRequest> messages = StreamMessages(1, request, 4);
  for (size_t i = 0; i < messages.size(); i += 2) {
    if (!stream.Send(messages[i])) break;
  }
  const StreamedAnswer answer = stream.Await(1);
  EXPECT_EQ(answer.status.code(), kInvalidArgument);
  EXPECT_THAT(answer.status.message(), HasSubstr("gaps"));
  server.AwaitIdle();
}

TEST_F(StreamTest, IdleStreamEndsWhenTheServerDrains) {
  TestServer server;
  StreamClient stream(server.attention());
  stream.Send(StreamMessages(1, Small(), 4096));
  EXPECT_EQ(stream.Await(1).status.code(), 0);
  std::thread drain([&] { EXPECT_TRUE(server.server().Drain(absl::Seconds(30))); });
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  drain.join();
}

TEST_F(StreamTest, StreamThatDrainsFinishesItsCallsAndRefusesNewOnes) {
  TestServer server("run@1=hang");
  StreamClient stream(server.attention());
  const v1::AttendRequest half_sent = Small();
  const std::vector<v1::AttendStreamRequest> messages = StreamMessages(2, half_sent, 512);
  stream.Send(StreamMessages(1, Small(), 4096));
  server.device().AwaitBatch(1);
  stream.Send(messages[0]);
  server.AwaitOccupancy([](const v1::Occupancy& occupancy) { return occupancy.staging_used_bytes() >= 2 * 2048; });
  // Not the time for which the half-sent call's next chunk is waited for.
  constexpr absl::Duration kDrain = absl::Seconds(20);
  std::thread drain([&] { EXPECT_TRUE(server.server().Drain(kDrain)); });
  server.clock().AwaitWaiter(server.clock().Now() + kDrain);
  stream.Send(StreamMessages(3, Small(), 4096));
  EXPECT_EQ(stream.Await(3).status.code(), static_cast<int>(grpc::StatusCode::UNAVAILABLE));
  // Admitted before the drain: may send its rest.
  for (size_t i = 1; i < messages.size(); ++i) stream.Send(messages[i]);
  server.device().ReleaseAll();
  EXPECT_EQ(stream.Await(1).status.code(), 0);
  const StreamedAnswer answer = stream.Await(2);
  EXPECT_EQ(answer.status.code(), 0) << answer.status.message();
  EXPECT_LT(Error(half_sent, answer.payload), 1e-5);
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  drain.join();
}

TEST_F(StreamTest, WhatOutlastsTheDrainEndsWithUnavailable) {
  TestServer server("run@1=hang");
  StreamClient stream(server.attention());
  stream.Send(StreamMessages(1, Small(), 4096));
  server.device().AwaitBatch(1);
  stream.Send(StreamMessages(2, Small(), 512)[0]);  // and no more of it
  server.AwaitOccupancy([](const v1::Occupancy& occupancy) { return occupancy.staging_used_bytes() >= 2 * 2048; });
  constexpr absl::Duration kDrain = absl::Seconds(20);
  std::thread drain([&] { EXPECT_FALSE(server.server().Drain(kDrain)); });
  server.clock().AwaitWaiter(server.clock().Now() + kDrain);
  server.clock().Advance(kDrain);
  for (const uint64_t id : {1, 2}) {
    const StreamedAnswer answer = stream.Await(id);
    EXPECT_EQ(answer.status.code(), static_cast<int>(grpc::StatusCode::UNAVAILABLE)) << id;
    EXPECT_THAT(answer.status.message(), HasSubstr("stopped"));
  }
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  server.device().ReleaseAll();
  drain.join();
}

}  // namespace
}  // namespace tessera::testing
