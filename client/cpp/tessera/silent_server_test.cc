// Sequences of a server that takes calls and never answers them.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cpp/tessera/endpoint.h"
#include "client/cpp/tessera/extend_call.h"
#include "client/cpp/tessera/options.h"
#include "client/cpp/tessera/resident_sequence.h"
#include "client/cpp/tessera/sequence_connection.h"
#include "client/cpp/tessera/sequence_session.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "tessera/v1/sequence.grpc.pb.h"

namespace tessera {
namespace {

constexpr uint32_t kHeadDim = 16;

// Reads what comes, and ends only when the client breaks the stream.
class SilentStream final : public grpc::ServerBidiReactor<v1::ExtendStreamRequest, v1::ExtendStreamResponse> {
 public:
  explicit SilentStream(absl::BlockingCounter* taken) : taken_(taken) { StartRead(&request_); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (!request_.cancel()) taken_->DecrementCount();
    StartRead(&request_);
  }
  void OnCancel() override { Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }

  absl::BlockingCounter* const taken_;
  v1::ExtendStreamRequest request_;
};

// Creates sequences. Does not tell its limits.
class SilentService final : public v1::SequenceService::CallbackService {
 public:
  // Counts the calls that are taken.
  explicit SilentService(absl::BlockingCounter* taken) : taken_(taken) {}

 private:
  grpc::ServerUnaryReactor* CreateSequences(grpc::CallbackServerContext* context,
                                            const v1::CreateSequencesRequest* request,
                                            v1::CreateSequencesResponse* response) override {
    for (uint32_t i = 0; i < request->count(); ++i) response->add_sequences("handle");
    response->mutable_profile()->set_dtype(v1::DATA_TYPE_FLOAT32);
    response->mutable_profile()->set_kv_heads(1);
    response->mutable_profile()->set_head_dim(kHeadDim);
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerBidiReactor<v1::ExtendStreamRequest, v1::ExtendStreamResponse>* ExtendStream(
      grpc::CallbackServerContext* /*context*/) override {
    return new SilentStream(taken_);
  }

  absl::BlockingCounter* const taken_;
};

TEST(SilentServerTest, ASessionEndsItsCallsInTheTimeOfOneGoodbye) {
  constexpr int kConnections = 8;
  absl::BlockingCounter taken(kConnections);
  SilentService service(&taken);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);

  ClientOptions options;
  options.connections = kConnections;
  options.transport = Transport::kStream;
  absl::StatusOr<std::unique_ptr<SequenceSession>> session =
      SequenceSession::Connect(absl::StrCat("127.0.0.1:", port), options);
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<std::byte> row(kHeadDim * sizeof(float)), o(row.size());
  std::deque<std::vector<ResidentSequence>> kept;
  // On each connection a call that the server has, and one that waits until it has answered.
  std::vector<absl::Status> ends(2 * kConnections);
  for (size_t i = 0; i < kConnections; ++i) {
    absl::StatusOr<std::vector<ResidentSequence>> sequences = (*session)->Create("any", 1);
    ASSERT_TRUE(sequences.ok()) << sequences.status();
    const std::vector<ResidentSequence>& made = kept.emplace_back(std::move(*sequences));
    ExtendCall call;
    call.q_heads = 1;
    call.steps = {{.sequence = &made[0], .q = row, .k = row, .v = row, .o = absl::MakeSpan(o), .lse = {}}};
    for (absl::Status* end : {&ends[2 * i], &ends[2 * i + 1]}) {
      (*session)->ExtendAsync(call, [end](const absl::StatusOr<ExtendReply>& reply) { *end = reply.status(); });
    }
  }
  taken.Wait();

  const absl::Time begun = absl::Now();
  session->reset();
  EXPECT_LT(absl::Now() - begun, 4 * SequenceConnection::kGoodbyeTimeout) << "one stream after the other";
  for (const absl::Status& end : ends) EXPECT_EQ(end.code(), absl::StatusCode::kCancelled) << end;
}

TEST(SequenceConnectionTest, OutlivesTheReleaseOfItsSequences) {
  auto connection = std::make_unique<SequenceConnection>(Endpoint{"127.0.0.1:1", ""}, ClientOptions());
  connection->ReleaseSoon("handle");
  connection.reset();  // where it did not wait, the answer would come to freed memory
}

}  // namespace
}  // namespace tessera
