// A client's end of ExtendStream.
#ifndef TESSERA_TESTS_SERVER_STEP_STREAM_H_
#define TESSERA_TESTS_SERVER_STEP_STREAM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"
#include "gtest/gtest.h"
#include "tessera/v1/sequence.grpc.pb.h"

namespace tessera::testing {

// One thread at a time.
class StepStream {
 public:
  explicit StepStream(v1::SequenceService::Stub& stub) {
    context_.AddMetadata("tessera-tenant", "a");
    stream_ = stub.ExtendStream(&context_);
  }
  ~StepStream() {
    context_.TryCancel();
    Finish();
  }

  bool Send(uint64_t id, const v1::ExtendRequest& request, uint64_t timeout_us = 0) {
    v1::ExtendStreamRequest message;
    message.set_id(id);
    message.set_timeout_us(timeout_us);
    *message.mutable_header() = request.header();
    message.set_q(request.q());
    message.set_k(request.k());
    message.set_v(request.v());
    return stream_->Write(message);
  }
  bool Send(const v1::ExtendStreamRequest& message) { return stream_->Write(message); }
  bool SendCancel(uint64_t id) {
    v1::ExtendStreamRequest message;
    message.set_id(id);
    message.set_cancel(true);
    return stream_->Write(message);
  }
  void HalfClose() { stream_->WritesDone(); }

  // The answer to `id`, keeping what comes for others. Code UNKNOWN where the stream ended first.
  v1::ExtendStreamResponse Await(uint64_t id) {
    v1::ExtendStreamResponse message;
    while (answers_.find(id) == answers_.end()) {
      if (!stream_->Read(&message)) {
        message.mutable_status()->set_code(grpc::StatusCode::UNKNOWN);
        return message;
      }
      order_.push_back(message.id());
      EXPECT_TRUE(answers_.emplace(message.id(), message).second) << "answered twice";
    }
    return answers_.extract(id).mapped();
  }
  const std::vector<uint64_t>& order() const { return order_; }

  // Reads to the end.
  grpc::Status Finish() {
    if (!finished_) {
      v1::ExtendStreamResponse message;
      while (stream_->Read(&message)) order_.push_back(message.id());
      status_ = stream_->Finish();
      finished_ = true;
    }
    return status_;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ExtendStreamRequest, v1::ExtendStreamResponse>> stream_;
  std::map<uint64_t, v1::ExtendStreamResponse> answers_;
  std::vector<uint64_t> order_;
  bool finished_ = false;
  grpc::Status status_;
};

// As a unary call would have been answered.
inline v1::ExtendResponse ToResponse(const v1::ExtendStreamResponse& streamed) {
  v1::ExtendResponse response;
  *response.mutable_result() = streamed.result();
  response.set_o(streamed.o());
  response.set_lse(streamed.lse());
  return response;
}

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_STEP_STREAM_H_
