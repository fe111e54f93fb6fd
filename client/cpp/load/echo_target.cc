#include "client/cpp/load/echo_target.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/load/echo_message.h"
#include "client/cpp/load/echo_stream.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"

namespace tessera::load {
namespace {

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a TCP connection of its own
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// One unary call; owns what gRPC needs until its end, then deletes itself.
struct UnaryCall {
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer response;
};

absl::Status CheckAnswer(const grpc::Status& status, const grpc::ByteBuffer& response, uint64_t answer_bytes) {
  if (!status.ok()) return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
  if (response.Length() != answer_bytes + kEchoHeaderBytes) {
    return absl::DataLossError(absl::StrCat("echo: ", response.Length(), " bytes came back"));
  }
  return absl::OkStatus();
}

// Completes a striped call once, when its last part ends; the first failure is the call's status.
class StripedCall {
 public:
  StripedCall(int parts, AnswerCallback done) : parts_(parts), done_(std::move(done)) {}

  void PartDone(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      answer_.status.Update(status);
      if (--parts_ > 0) return;
    }
    done_(answer_);
  }

 private:
  absl::Mutex mutex_;
  int parts_ ABSL_GUARDED_BY(mutex_);
  Answer answer_;  // written under the mutex while parts_ > 0, read by the last part alone
  const AnswerCallback done_;
};

}  // namespace

class EchoTarget::Connection {
 public:
  Connection(const std::string& address, bool stream) : channel_(Connect(address)), stub_(channel_) {
    if (stream) stream_ = std::make_unique<EchoStream>(channel_);
  }

  grpc::Channel* channel() { return channel_.get(); }
  grpc::GenericStub* stub() { return &stub_; }
  EchoStream* stream() { return stream_.get(); }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  std::unique_ptr<EchoStream> stream_;
};

EchoTarget::EchoTarget(const EchoOptions& options, absl::Span<const CallShape> shapes, const PayloadPool* payloads)
    : options_(options), shapes_(shapes.begin(), shapes.end()), payloads_(payloads) {
  for (int i = 0; i < options.connections; ++i) {
    connections_.push_back(std::make_unique<Connection>(options.address, options.stream));
  }
}

EchoTarget::~EchoTarget() = default;

absl::Status EchoTarget::AwaitConnected() {
  const auto deadline = std::chrono::system_clock::now() + absl::ToChronoNanoseconds(options_.timeout);
  for (const std::unique_ptr<Connection>& connection : connections_) {
    if (!connection->channel()->WaitForConnected(deadline)) {
      return absl::UnavailableError(absl::StrCat("echo: no connection to ", options_.address));
    }
  }
  return absl::OkStatus();
}

void EchoTarget::Issue(const Call& call, AnswerCallback done) {
  const absl::Span<const std::byte> payload = payloads_->Get(call.shape, call.payload).all();
  options_.stream ? IssueStream(call.shape, payload, std::move(done))
                  : IssueUnary(call.shape, payload, std::move(done));
}

EchoTarget::Connection* EchoTarget::NextConnection() {
  return connections_[issued_.fetch_add(1, std::memory_order_relaxed) % connections_.size()].get();
}

void EchoTarget::IssueUnary(size_t shape, absl::Span<const std::byte> payload, AnswerCallback done) {
  const auto answer_bytes = static_cast<uint64_t>(shapes_[shape].response_bytes());
  auto* const call = new UnaryCall;
  call->context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoNanoseconds(options_.timeout));
  call->request = EchoRequest({0, answer_bytes}, payload);
  NextConnection()->stub()->UnaryCall(&call->context, kEchoUnaryMethod, grpc::StubOptions(), &call->request,
                                      &call->response,
                                      [call, answer_bytes, done = std::move(done)](const grpc::Status& status) {
                                        Answer answer;
                                        answer.status = CheckAnswer(status, call->response, answer_bytes);
                                        delete call;
                                        done(answer);
                                      });
}

void EchoTarget::IssueStream(size_t shape, absl::Span<const std::byte> payload, AnswerCallback done) {
  const auto answer_bytes = static_cast<uint64_t>(shapes_[shape].response_bytes());
  const uint64_t largest = std::max<uint64_t>(payload.size(), answer_bytes);
  if (largest < static_cast<uint64_t>(options_.stripe_threshold_bytes)) {
    NextConnection()->stream()->Send(payload, answer_bytes, [done = std::move(done)](const absl::Status& status) {
      Answer answer;
      answer.status = status;
      done(answer);
    });
    return;
  }
  const uint64_t parts = connections_.size();
  const auto striped = std::make_shared<StripedCall>(static_cast<int>(parts), std::move(done));
  const size_t payload_part = (payload.size() + parts - 1) / parts;
  const uint64_t answer_part = (answer_bytes + parts - 1) / parts;
  for (uint64_t i = 0; i < parts; ++i) {
    const uint64_t answer_begin = std::min(answer_bytes, i * answer_part);
    connections_[i]->stream()->Send(payload.subspan(std::min(payload.size(), i * payload_part), payload_part),
                                    std::min(answer_part, answer_bytes - answer_begin),
                                    [striped](const absl::Status& status) { striped->PartDone(status); });
  }
}

}  // namespace tessera::load
