// A client of several fake servers, over real sockets.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/blocking_counter.h"
#include "client/cpp/tessera/client.h"
#include "client/cpp/tessera/client_checks.h"
#include "client/cpp/tessera/client_test_call.h"
#include "client/cpp/tessera/client_test_server.h"
#include "client/cpp/tessera/endpoint.h"
#include "client/cpp/tessera/fake_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::SizeIs;

FakeServer::Judge AlwaysFail(grpc::StatusCode code) {
  return Always(FakeServer::Deed::kFail, grpc::Status(code, "told to fail"));
}

class SeveralServersTest : public ::testing::TestWithParam<Transport> {
 protected:
  SeveralServersTest() {
    for (int i = 0; i < 3; ++i) servers_.push_back(std::make_unique<FakeServer>());
  }

  std::unique_ptr<Client> MakeClient(ClientOptions options = {}) const {
    std::vector<std::string> targets;
    for (const auto& server : servers_) targets.push_back(server->target());
    options.transport = GetParam();
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(absl::StrJoin(targets, ","), options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  std::vector<std::unique_ptr<FakeServer>> servers_;
};

INSTANTIATE_TEST_SUITE_P(Transports, SeveralServersTest, ::testing::Values(Transport::kUnary, Transport::kStream),
                         [](const auto& param) { return param.param == Transport::kUnary ? "Unary" : "Stream"; });

TEST_P(SeveralServersTest, CallsAreSpreadEvenly) {
  const std::unique_ptr<Client> client = MakeClient();
  for (uint64_t i = 0; i < 30; ++i) {
    TestCall call(4, 4, false, i);
    ASSERT_TRUE(client->Attend(call.call()).ok());
    call.ExpectAnswered();
  }
  for (const auto& server : servers_) EXPECT_EQ(server->calls(), 10);
}

TEST_P(SeveralServersTest, ACallThatFindsAServerGoneIsAnsweredByAnotherAtOnce) {
  ClientOptions options;
  options.retry.initial_backoff = options.retry.max_backoff = absl::Hours(1);  // any wait would show
  const std::unique_ptr<Client> client = MakeClient(options);
  servers_[0]->SetJudge([](const FakeServer::Call& call) {  // a server that shuts down may say either
    return AlwaysFail(call.number % 2 == 0 ? grpc::StatusCode::UNAVAILABLE : grpc::StatusCode::CANCELLED)(call);
  });
  servers_[1].reset();
  for (uint64_t i = 0; i < 30; ++i) {
    TestCall call(4, 4, true, i);
    const absl::StatusOr<AttendReply> reply = client->Attend(call.call());
    ASSERT_TRUE(reply.ok()) << reply.status();
    call.ExpectAnswered();
  }
  EXPECT_EQ(servers_[2]->calls(), 30);
  EXPECT_LT(servers_[0]->calls(), 10) << "it is avoided";
}

TEST_P(SeveralServersTest, OtherErrorsAreNotTriedElsewhere) {
  const std::unique_ptr<Client> client = MakeClient();
  for (const auto& server : servers_) server->SetJudge(AlwaysFail(grpc::StatusCode::INVALID_ARGUMENT));
  TestCall call(4, 4, false, 1);
  EXPECT_EQ(client->Attend(call.call()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(servers_[0]->calls() + servers_[1]->calls() + servers_[2]->calls(), 1);
}

TEST_P(SeveralServersTest, FactsComeFromOneThatAnswers) {
  servers_[0].reset();
  servers_[2].reset();
  std::vector<std::string> targets = {"127.0.0.1:1", "127.0.0.1:2", servers_[1]->target(), "127.0.0.1:3"};
  ClientOptions options;
  options.retry.max_attempts = 1;  // of calls
  const absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(absl::StrJoin(targets, ","), options);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE((*client)->GetServerInfo().ok());
}

TEST_P(SeveralServersTest, AllGoneIsUnavailable) {
  ClientOptions options;
  options.retry.initial_backoff = options.retry.max_backoff = absl::Milliseconds(1);
  const std::unique_ptr<Client> client = MakeClient(options);
  for (const auto& server : servers_) server->SetJudge(AlwaysFail(grpc::StatusCode::UNAVAILABLE));
  TestCall call(4, 4, false, 1);
  EXPECT_EQ(client->Attend(call.call()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(servers_[0]->calls() + servers_[1]->calls() + servers_[2]->calls(), options.retry.max_attempts);
}

TEST(SeveralServersStripesTest, AllStripesOfACallGoToOneServer) {
  FakeServer one, other;
  ClientOptions options;
  options.connections = 3;
  options.stripe_threshold_bytes = 1000;
  options.chunk_bytes = 500;
  const absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Connect(absl::StrCat(one.target(), ",", other.target()), options);
  ASSERT_TRUE(client.ok());
  for (uint64_t i = 0; i < 8; ++i) {
    TestCall call(100, 100, true, i);
    const absl::StatusOr<AttendReply> reply = (*client)->Attend(call.call());
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->connections, 3);
    call.ExpectAnswered();
  }
  EXPECT_EQ(one.calls(), 4);
  EXPECT_EQ(other.calls(), 4);
  EXPECT_THAT(one.peers(), SizeIs(3));
}

TEST(SeveralServersNameTest, EveryAddressOfANameIsAServer) {
  FakeServer server;
  const std::string port = server.target().substr(server.target().rfind(':'));
  ClientOptions options;
  options.every_address = true;
  const absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect("127.0.0.1" + port, options);
  ASSERT_TRUE(client.ok()) << client.status();
  TestCall call(4, 4, false, 1);
  EXPECT_TRUE((*client)->Attend(call.call()).ok());
  call.ExpectAnswered();
  EXPECT_EQ(Client::Connect("a:1,b:2", options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SeveralServersNameTest, ANameWithoutAddressesIsUnavailable) {
  ClientOptions options;
  options.every_address = true;
  options.retry.max_attempts = 1;
  const absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect("no-such-host.invalid:1", options);
  ASSERT_TRUE(client.ok()) << client.status();
  TestCall call(4, 4, false, 1);
  EXPECT_EQ((*client)->Attend(call.call()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ((*client)->GetServerInfo().status().code(), absl::StatusCode::kUnavailable);
}

TEST(SeveralServersListTest, ListsWithHolesAreRefused) {
  for (const char* target : {"", " ", "a:1,", ",a:1", "a:1,,b:1", "a:1, ,b:1", "a:1,b:65536", "a:1,b c:1", "a:1 b:1"}) {
    EXPECT_EQ(Client::Connect(target, {}).status().code(), absl::StatusCode::kInvalidArgument) << target;
  }
}

TEST(SeveralServersListTest, SpacesAroundAServerAreNoPartOfItsName) {
  const absl::StatusOr<std::vector<Endpoint>> servers = ParseTarget(" a:1, b:2 ,\tc:3", {});
  ASSERT_TRUE(servers.ok()) << servers.status();
  EXPECT_EQ(*servers, (std::vector<Endpoint>{{"a:1", ""}, {"b:2", ""}, {"c:3", ""}}));
}

}  // namespace
}  // namespace tessera
