// Calls striped over several streams, each on a connection of its own.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/attend_messages.h"
#include "tests/server/stream_client.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kInvalidArgument = static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT);

class StripeTest : public ::testing::Test {
 protected:
  std::unique_ptr<StreamClient> NewStream(TestServer& server, const std::string& tenant = "") {
    stubs_.push_back(v1::AttentionService::NewStub(server.NewChannel()));
    return std::make_unique<StreamClient>(*stubs_.back(), tenant);
  }

  static v1::AttendStreamRequest Opening(uint64_t id, const v1::AttendHeader& header, uint32_t index, uint32_t count,
                                         const std::string& transfer = std::string(16, 't')) {
    v1::AttendStreamRequest message;
    message.set_id(id);
    *message.mutable_header() = header;
    message.mutable_stripe()->set_transfer(transfer);
    message.mutable_stripe()->set_index(index);
    message.mutable_stripe()->set_count(count);
    return message;
  }

  v1::AttendRequest Medium() { return Request(Header({100}), rng_); }

  std::mt19937_64 rng_{71};
  std::vector<std::unique_ptr<v1::AttentionService::Stub>> stubs_;
};

TEST_F(StripeTest, PayloadComesOverAllStreamsAndTheAnswerGoesBackInRanges) {
  TestServer server;
  constexpr uint32_t kStreams = 3;
  v1::AttendRequest request = Medium();
  request.mutable_header()->mutable_options()->set_return_lse(true);
  std::vector<std::unique_ptr<StreamClient>> streams;
  for (uint32_t i = 0; i < kStreams; ++i) {
    streams.push_back(NewStream(server));
    // Ids are each stream's own.
    streams[i]->Send(Opening(10 + i, request.header(), i, kStreams));
  }
  std::vector<v1::AttendStreamRequest> chunks = StreamMessages(0, request, 1000);
  for (size_t i = 0; i < chunks.size(); ++i) {
    chunks[i].clear_header();
    chunks[i].set_id(10 + i % kStreams);
    streams[i % kStreams]->Send(chunks[i]);
  }
  const size_t total = QBytes(request.header()) + 100 * 2 * 4;
  const size_t range = (total + kStreams - 1) / kStreams;
  std::string whole;
  for (uint32_t i = 0; i < kStreams; ++i) {
    const StreamedAnswer answer = streams[i]->Await(10 + i);
    ASSERT_EQ(answer.status.code(), 0) << answer.status.message();
    ASSERT_TRUE(answer.result.has_value());
    EXPECT_EQ(answer.result->o_bytes(), QBytes(request.header()));
    EXPECT_EQ(answer.begin, i * range);
    EXPECT_EQ(answer.payload.size(), std::min(range, total - i * range));
    whole += answer.payload;
  }
  EXPECT_LT(Error(request, whole.substr(0, QBytes(request.header()))), 1e-5);
  EXPECT_EQ(server.Metrics()["tessera_batch_requests_sum"], 1) << "one call, one job";
  EXPECT_EQ(server.Metrics()["tessera_copied_bytes_total{direction=\"receive\"}"], Payload(request).size());
  server.AwaitIdle();
}

TEST_F(StripeTest, AllBytesMayComeBeforeTheLastStreamJoins) {
  TestServer server;
  const v1::AttendRequest request = Medium();
  const auto first = NewStream(server);
  const auto second = NewStream(server);
  v1::AttendStreamRequest opening = Opening(1, request.header(), 0, 2);
  opening.set_payload(Payload(request));
  first->Send(opening);
  server.AwaitMetric("tessera_copied_bytes_total{direction=\"receive\"}", static_cast<double>(Payload(request).size()));
  second->Send(Opening(1, request.header(), 1, 2));
  const StreamedAnswer front = first->Await(1);
  const StreamedAnswer back = second->Await(1);
  ASSERT_EQ(front.status.code(), 0) << front.status.message();
  ASSERT_EQ(back.status.code(), 0) << back.status.message();
  EXPECT_LT(Error(request, front.payload + back.payload), 1e-5);
}

TEST_F(StripeTest, RangesMayBeEmpty) {
  TestServer server;
  const v1::AttendRequest request = Request(Header({0}), rng_);
  const auto first = NewStream(server);
  const auto second = NewStream(server);
  first->Send(Opening(1, request.header(), 0, 2));
  second->Send(Opening(1, request.header(), 1, 2));
  EXPECT_EQ(first->Await(1).status.code(), 0);
  EXPECT_EQ(second->Await(1).status.code(), 0);
}

TEST_F(StripeTest, NonsenseIsRefused) {
  TestServer server;
  const auto stream = NewStream(server);
  const v1::AttendHeader header = Header({4});
  const std::vector<v1::AttendStreamRequest> bad = {Opening(1, header, 0, 2, "short"), Opening(2, header, 0, 1),
                                                    Opening(3, header, 0, 65), Opening(4, header, 2, 2)};
  for (const v1::AttendStreamRequest& message : bad) {
    stream->Send(message);
    const StreamedAnswer answer = stream->Await(message.id());
    EXPECT_EQ(answer.status.code(), kInvalidArgument) << message.id();
    EXPECT_THAT(answer.status.message(), HasSubstr("stripe."));
  }
  server.AwaitIdle();
}

TEST_F(StripeTest, DifferingHeadersFailTheCallOnEveryStream) {
  TestServer server;
  const auto first = NewStream(server);
  const auto second = NewStream(server);
  first->Send(Opening(1, Header({4}), 0, 2));
  server.AwaitOccupancy([](const v1::Occupancy& occupancy) { return occupancy.staging_used_bytes() > 0; });
  second->Send(Opening(1, Header({5}), 1, 2));
  EXPECT_EQ(second->Await(1).status.code(), kInvalidArgument);
  EXPECT_EQ(first->Await(1).status.code(), kInvalidArgument);
  server.AwaitIdle();
}

TEST_F(StripeTest, SecondStreamOfOneIndexFailsTheCall) {
  TestServer server;
  const auto first = NewStream(server);
  const auto second = NewStream(server);
  first->Send(Opening(1, Header({4}), 0, 2));
  server.AwaitOccupancy([](const v1::Occupancy& occupancy) { return occupancy.staging_used_bytes() > 0; });
  second->Send(Opening(1, Header({4}), 0, 2));
  EXPECT_EQ(second->Await(1).status.code(), kInvalidArgument);
  EXPECT_EQ(first->Await(1).status.code(), kInvalidArgument);
  server.AwaitIdle();
}

TEST_F(StripeTest, MissingStreamEndsTheCallInTime) {
  TestServer server;
  const v1::AttendRequest request = Medium();
  const auto stream = NewStream(server);
  v1::AttendStreamRequest opening = Opening(1, request.header(), 0, 2);
  opening.set_payload(Payload(request));
  stream->Send(opening);
  server.AwaitOccupancy([](const v1::Occupancy& occupancy) { return occupancy.staging_used_bytes() > 0; });
  server.clock().AwaitWaiter(server.clock().Now() + TestServer::Config().attend.stripe_timeout);
  server.clock().Advance(TestServer::Config().attend.stripe_timeout);
  EXPECT_EQ(stream->Await(1).status.code(), static_cast<int>(grpc::StatusCode::DEADLINE_EXCEEDED));
  EXPECT_EQ(server.Metrics()["tessera_expired_total{where=\"receive\"}"], 1);
  server.AwaitIdle();
}

TEST_F(StripeTest, BrokenStreamIsUnavailableOnTheOthers) {
  TestServer server("run@1=hang");
  const v1::AttendRequest request = Medium();
  UnaryCall holder(server.attention(), request);
  server.device().AwaitBatch(1);
  auto first = NewStream(server);
  const auto second = NewStream(server);
  v1::AttendStreamRequest opening = Opening(1, request.header(), 0, 2);
  opening.set_payload(Payload(request));
  first->Send(opening);
  second->Send(Opening(1, request.header(), 1, 2));
  server.AwaitQueued(1);
  first.reset();
  EXPECT_EQ(second->Await(1).status.code(), static_cast<int>(grpc::StatusCode::UNAVAILABLE));
  server.AwaitQueued(0);
  EXPECT_EQ(server.Metrics()["tessera_cancelled_total{where=\"queue\"}"], 1);
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"draining\"}"], 0);
  // The other stream lives on.
  second->Send(StreamMessages(2, request, 4096));
  server.device().ReleaseAll();
  EXPECT_EQ(second->Await(2).status.code(), 0);
}

TEST_F(StripeTest, LateStreamOfACallThatHasEndedGetsTheSameAnswer) {
  TestServer server;
  const auto first = NewStream(server);
  const auto second = NewStream(server);
  first->Send(Opening(1, Header({4}), 0, 2));
  server.AwaitOccupancy([](const v1::Occupancy& occupancy) { return occupancy.staging_used_bytes() > 0; });
  first->SendCancel(1);
  EXPECT_EQ(first->Await(1).status.code(), static_cast<int>(grpc::StatusCode::CANCELLED));
  second->Send(Opening(1, Header({4}), 1, 2));
  EXPECT_EQ(second->Await(1).status.code(), static_cast<int>(grpc::StatusCode::CANCELLED));
  server.AwaitIdle();
}

TEST_F(StripeTest, CallsThatWaitForTheirStreamsAreBounded) {
  ServerConfig config = TestServer::Config();
  config.attend.max_striped_calls = 4;
  TestServer server("", config);
  const auto mine = NewStream(server, "mine");
  const auto yours = NewStream(server, "yours");
  const auto theirs = NewStream(server, "theirs");
  const auto open = [](StreamClient& stream, uint64_t id) {
    stream.Send(Opening(id, Header({4}), 0, 2, std::string(16, static_cast<char>('a' + id))));
  };
  open(*mine, 1);
  server.AwaitOccupancy([](const v1::Occupancy& occupancy) { return occupancy.staging_used_bytes() > 0; });
  const uint64_t four = 4 * server.Info().occupancy().staging_used_bytes();
  open(*mine, 2);
  open(*yours, 1);
  open(*yours, 2);
  server.AwaitOccupancy([&](const v1::Occupancy& occupancy) { return occupancy.staging_used_bytes() == four; });
  theirs->Send(Opening(1, Header({4}), 0, 2));
  const StreamedAnswer refused = theirs->Await(1);
  EXPECT_EQ(refused.status.code(), static_cast<int>(grpc::StatusCode::RESOURCE_EXHAUSTED));
  EXPECT_GE(refused.status.retry_after_ms(), 100u);
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"stripes\"}"], 1);
}

TEST_F(StripeTest, OneTenantLeavesOthersRoomToWait) {
  ServerConfig config = TestServer::Config();
  config.attend.max_striped_calls = 4;
  TestServer server("", config);
  const auto greedy = NewStream(server, "greedy");
  for (uint64_t id = 1; id <= 3; ++id) {
    greedy->Send(Opening(id, Header({4}), 0, 2, std::string(16, static_cast<char>('a' + id))));
  }
  EXPECT_EQ(greedy->Await(3).status.code(), static_cast<int>(grpc::StatusCode::RESOURCE_EXHAUSTED));
  const auto first = NewStream(server, "other");
  const auto second = NewStream(server, "other");
  const v1::AttendRequest request = Medium();
  v1::AttendStreamRequest opening = Opening(1, request.header(), 0, 2);
  opening.set_payload(Payload(request));
  first->Send(opening);
  second->Send(Opening(1, request.header(), 1, 2));
  EXPECT_EQ(first->Await(1).status.code(), 0);
  EXPECT_EQ(second->Await(1).status.code(), 0);
  // A call that has its streams waits no more.
  greedy->SendCancel(1);
  greedy->SendCancel(2);
  server.AwaitIdle();
}

TEST_F(StripeTest, InvalidOpeningLeavesNoMark) {
  TestServer server;
  const auto first = NewStream(server);
  const auto second = NewStream(server);
  const v1::AttendRequest request = Medium();
  v1::AttendHeader invalid = request.header();
  invalid.set_head_dim(9);
  first->Send(Opening(1, invalid, 0, 2));
  EXPECT_EQ(first->Await(1).status.code(), kInvalidArgument);
  v1::AttendStreamRequest opening = Opening(2, request.header(), 0, 2);
  opening.set_payload(Payload(request));
  first->Send(opening);
  second->Send(Opening(2, request.header(), 1, 2));
  EXPECT_EQ(first->Await(2).status.code(), 0);
  EXPECT_EQ(second->Await(2).status.code(), 0);
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"invalid\"}"], 1);
}

TEST_F(StripeTest, TenantsDoNotMeetInOneTransfer) {
  TestServer server;
  const auto mine = NewStream(server, "mine");
  const auto yours = NewStream(server, "yours");
  mine->Send(Opening(1, Header({4}), 0, 2));
  server.AwaitOccupancy([](const v1::Occupancy& occupancy) { return occupancy.staging_used_bytes() > 0; });
  const uint64_t one_call = server.Info().occupancy().staging_used_bytes();
  // Another header would end the call, had the two met.
  yours->Send(Opening(1, Header({4, 4}), 1, 2));
  server.AwaitOccupancy([&](const v1::Occupancy& occupancy) { return occupancy.staging_used_bytes() > one_call; });
  mine->SendCancel(1);
  yours->SendCancel(1);
  EXPECT_EQ(mine->Await(1).status.code(), static_cast<int>(grpc::StatusCode::CANCELLED));
  EXPECT_EQ(yours->Await(1).status.code(), static_cast<int>(grpc::StatusCode::CANCELLED));
}

TEST_F(StripeTest, HalfCloseOfAllStreamsBeforeTheLastByteFailsTheCall) {
  TestServer server;
  const auto first = NewStream(server);
  const auto second = NewStream(server);
  first->Send(Opening(1, Header({4}), 0, 2));
  second->Send(Opening(1, Header({4}), 1, 2));
  first->HalfClose();
  second->HalfClose();
  EXPECT_TRUE(first->Finish().ok());
  EXPECT_TRUE(second->Finish().ok());
  ASSERT_EQ(first->answers().size(), 1u);
  EXPECT_EQ(first->answers()[0].second.status.code(), kInvalidArgument);
  ASSERT_EQ(second->answers().size(), 1u);
  EXPECT_EQ(second->answers()[0].second.status.code(), kInvalidArgument);
}

}  // namespace
}  // namespace tessera::testing
