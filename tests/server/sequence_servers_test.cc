// Three servers of one set, on 127.0.0.1 to 127.0.0.3: sequences that one keeps, asked for at another.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/tessera/redirect.h"
#include "client/cpp/tessera/sequence_session.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "tests/server/sequence_client.h"
#include "tests/server/test_server.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::SequenceClient;
using testing::TestServer;

CacheProfile Profile() {
  return {.name = "small",
          .layers = 1,
          .kv_heads = 1,
          .head_dim = 16,
          .dtype = DType::kFloat32,
          .page_tokens = 8,
          .pages = 64,
          .max_tokens = 200,
          .max_sequences = 16};
}

// "host:port" of a port that is free now.
std::string FreeAddress(const std::string& host) {
  const int held = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof(address);
  EXPECT_EQ(inet_pton(AF_INET, host.c_str(), &address.sin_addr), 1);
  EXPECT_EQ(bind(held, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(held, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(held);
  return absl::StrCat(host, ":", ntohs(address.sin_port));
}

class SequenceServersTest : public ::testing::Test {
 protected:
  SequenceServersTest() {
    for (const char* host : {"127.0.0.1", "127.0.0.2", "127.0.0.3"}) addresses_.push_back(FreeAddress(host));
    for (size_t i = 0; i < addresses_.size(); ++i) Start(i);
  }

  // A server at its address, in place of the one that may be there.
  void Start(size_t i) {
    servers_.resize(addresses_.size());
    servers_[i].reset();
    ServerConfig config = TestServer::Config();
    config.kv_profiles = {Profile()};
    config.listen = config.advertise = addresses_[i];
    config.peers = addresses_;
    servers_[i] = std::make_unique<TestServer>("", config);
  }

  std::unique_ptr<SequenceSession> Connect(const std::string& target, const ClientOptions& options = {}) {
    return *SequenceSession::Connect(target, options);
  }

  std::shared_ptr<grpc::Channel> Channel(size_t server) const {
    return grpc::CreateChannel(addresses_[server], grpc::InsecureChannelCredentials());
  }

  double Sequences(size_t server) { return servers_[server]->Metrics()["tessera_kv_sequences{profile=\"small\"}"]; }

  // One decode step of rows of `value`, whose o must be the mean of all values so far, in `session`.
  static absl::StatusOr<float> Append(SequenceSession& session, const ResidentSequence& sequence, float value) {
    std::vector<float> q(16, 0), kv(16, value), o(16, -1);
    const auto in = [](const std::vector<float>& rows) {
      return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(rows.data()), rows.size() * sizeof(float));
    };
    ExtendCall call;
    call.q_heads = 1;
    Step& step = call.steps.emplace_back();
    step.sequence = &sequence;
    step.q = in(q);
    step.k = step.v = in(kv);
    step.o = absl::MakeSpan(reinterpret_cast<std::byte*>(o.data()), o.size() * sizeof(float));
    if (const auto reply = session.Extend(call); !reply.ok()) return reply.status();
    return o.front();
  }

  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<TestServer>> servers_;
};

TEST_F(SequenceServersTest, AnotherServerSaysWhereTheSequenceIsInEveryRpc) {
  SequenceClient home(Channel(2), Profile(), "a", 1);
  SequenceClient away(Channel(0), Profile(), "a", 1);
  const std::string handle = home.Create().handle;
  const std::string redirect = addresses_[2];
  const auto expect = [&](const auto& call) {
    grpc::ClientContext context;
    context.AddMetadata("tessera-tenant", "a");
    const grpc::Status status = call(&context);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
    EXPECT_EQ(RedirectIn(context), redirect);
    EXPECT_THAT(status.error_message(), Not(HasSubstr("127.0.0")));
  };
  expect([&](grpc::ClientContext* context) {
    v1::GetSequenceRequest request;
    request.set_sequence(handle);
    v1::GetSequenceResponse response;
    return away.stub().GetSequence(context, request, &response);
  });
  expect([&](grpc::ClientContext* context) {
    v1::ForkSequenceRequest request;
    request.set_sequence(handle);
    v1::ForkSequenceResponse response;
    return away.stub().ForkSequence(context, request, &response);
  });
  expect([&](grpc::ClientContext* context) {
    v1::TruncateSequenceRequest request;
    request.set_sequence(handle);
    v1::TruncateSequenceResponse response;
    return away.stub().TruncateSequence(context, request, &response);
  });
  v1::ExtendRequest extend;
  extend.mutable_header()->set_q_heads(1);
  extend.mutable_header()->add_entries()->set_sequence(handle);
  expect([&](grpc::ClientContext* context) {
    v1::ExtendResponse response;
    return away.stub().Extend(context, extend, &response);
  });
  {
    grpc::ClientContext context;
    const auto stream = away.stub().ExtendStream(&context);
    v1::ExtendStreamRequest request;
    request.set_id(7);
    *request.mutable_header() = extend.header();
    ASSERT_TRUE(stream->Write(request));
    v1::ExtendStreamResponse response;
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.status().code(), static_cast<int>(grpc::StatusCode::NOT_FOUND));
    EXPECT_EQ(response.status().redirect(), redirect);
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
  }
  // The server's own are released all the same.
  const std::string own = away.Create().handle;
  expect([&](grpc::ClientContext* context) {
    v1::ReleaseSequencesRequest request;
    for (const std::string& each : {handle, own}) request.add_sequences(each);
    v1::ReleaseSequencesResponse response;
    return away.stub().ReleaseSequences(context, request, &response);
  });
  EXPECT_EQ(Sequences(0), 0);
  EXPECT_EQ(Sequences(2), 1);
  // Of its own ones a server says nothing more: released, never there, another tenant's.
  SequenceClient other(Channel(2), Profile(), "b", 1);
  std::string guessed = handle;
  guessed.back() = static_cast<char>(guessed.back() + 1);
  v1::GetSequenceResponse response;
  EXPECT_EQ(other.Get(handle, &response).error_message(), "no such sequence");
  EXPECT_EQ(home.Get(guessed, &response).error_message(), "no such sequence");
}

TEST_F(SequenceServersTest, AHandleIsTakenUpThroughAnyServer) {
  const auto maker = Connect(addresses_[2]);
  std::string handle;
  {
    ResidentSequence sequence = std::move(maker->Create("small")->front());
    EXPECT_EQ(Append(*maker, sequence, 1).value(), 1);
    handle = sequence.Detach();
    EXPECT_TRUE(sequence.handle().empty());
  }
  EXPECT_EQ(Sequences(2), 1) << "a detached sequence outlives its object";

  const auto session = Connect(addresses_[0]);
  absl::StatusOr<ResidentSequence> sequence = session->Attach(handle);
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  EXPECT_EQ(sequence->handle(), handle);
  EXPECT_EQ(sequence->profile().name(), "small");
  EXPECT_EQ(Append(*session, *sequence, 2).value(), 1.5f);
  EXPECT_THAT(sequence->Get()->lengths(), ElementsAre(2));
  absl::StatusOr<ResidentSequence> fork = sequence->Fork();
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(Append(*session, *fork, 3).value(), 2);
  EXPECT_EQ(Sequences(2), 2);

  // One of the session's own server does not share a call with it.
  ResidentSequence here = std::move(session->Create("small")->front());
  EXPECT_EQ(Sequences(0), 1);
  ExtendCall mixed;
  mixed.q_heads = 1;
  mixed.steps.resize(2);
  mixed.steps[0].sequence = &here;
  mixed.steps[1].sequence = &*sequence;
  EXPECT_THAT(std::string(session->Extend(mixed).status().message()), HasSubstr("not where step 0's is"));

  EXPECT_TRUE(fork->Release().ok());
  EXPECT_TRUE(sequence->Release().ok());
  EXPECT_EQ(Sequences(2), 0);
}

TEST_F(SequenceServersTest, AHandleLeadsToItsServerWhereTheTargetNamesIt) {
  const auto maker = Connect(addresses_[1]);
  ResidentSequence made = std::move(maker->Create("small")->front());
  const std::string handle = made.Detach();
  const auto calls = [&](size_t server) {
    return servers_[server]->Metrics()
        ["grpc_server_started_total{grpc_method=\"GetSequence\",grpc_service=\"tessera.v1."
         "SequenceService\",grpc_type=\"unary\"}"];
  };
  const auto session = Connect(absl::StrJoin(addresses_, ","));
  const absl::StatusOr<ResidentSequence> sequence = session->Attach(handle);
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  EXPECT_EQ(calls(0), 0);
  EXPECT_EQ(calls(1), 1);
  EXPECT_EQ(calls(2), 0);
}

TEST_F(SequenceServersTest, WhatIsGoneIsNotFoundWhereverItIsAskedFor) {
  const auto maker = Connect(addresses_[1]);
  ResidentSequence made = std::move(maker->Create("small")->front());
  const std::string handle = made.Detach();
  const auto session = Connect(addresses_[0]);
  Start(1);  // another life, which has none of its sequences
  EXPECT_TRUE(absl::IsNotFound(session->Attach(handle).status()));
  std::string nobodys = handle;
  nobodys.front() = static_cast<char>(nobodys.front() + 1);
  for (const std::string& bad : {nobodys, handle.substr(1), std::string()}) {
    const absl::Status status = session->Attach(bad).status();
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_EQ(RedirectAddress(status), "");
  }
}

}  // namespace
}  // namespace tessera
