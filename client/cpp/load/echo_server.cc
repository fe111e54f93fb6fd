#include "client/cpp/load/echo_server.h"

#include <chrono>
#include <deque>
#include <limits>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/load/echo_message.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace tessera::load {
namespace {

grpc::Status BadHeader() { return {grpc::StatusCode::INVALID_ARGUMENT, "no echo header, or too large an answer"}; }

// One message in, one out. Deletes itself.
class UnaryEcho : public grpc::ServerGenericBidiReactor {
 public:
  UnaryEcho() { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    const std::optional<EchoHeader> header = ok ? ReadEchoHeader(request_) : std::nullopt;
    if (!header.has_value() || header->answer_bytes == kEchoMoreToCome) {
      Finish(BadHeader());
      return;
    }
    answer_ = EchoAnswer(*header, request_, std::numeric_limits<size_t>::max()).front();
    StartWriteAndFinish(&answer_, grpc::WriteOptions(), grpc::Status::OK);
  }

  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer request_;
  grpc::ByteBuffer answer_;
};

// Reads on while it writes, as a server of pipelined calls does. Deletes itself.
class StreamEcho : public grpc::ServerGenericBidiReactor {
 public:
  StreamEcho() { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      absl::MutexLock lock(&mutex_);
      reads_done_ = true;
      FinishIfDone();
      return;
    }
    const std::optional<EchoHeader> header = ReadEchoHeader(request_);
    {
      absl::MutexLock lock(&mutex_);
      if (!header.has_value()) {
        status_ = BadHeader();
        reads_done_ = true;
        FinishIfDone();
        return;
      }
      if (header->answer_bytes != kEchoMoreToCome) {
        for (grpc::ByteBuffer& message : EchoAnswer(*header, request_, kEchoChunkBytes)) answers_.push_back(message);
        if (!writing_) WriteNext();
      }
    }
    request_.Clear();
    StartRead(&request_);
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    answers_.pop_front();
    if (!ok) answers_.clear();  // the peer is gone
    if (!answers_.empty()) WriteNext();
    FinishIfDone();
  }

  void OnDone() override { delete this; }

 private:
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    writing_ = true;
    StartWrite(&answers_.front());
  }

  void FinishIfDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (reads_done_ && !writing_ && !finished_) {
      finished_ = true;
      Finish(status_);
    }
  }

  grpc::ByteBuffer request_;  // the outstanding read's
  absl::Mutex mutex_;
  std::deque<grpc::ByteBuffer> answers_ ABSL_GUARDED_BY(mutex_);  // the first is being written
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool reads_done_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
};

class EchoService : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    if (context->method() == kEchoUnaryMethod) return new UnaryEcho;
    if (context->method() == kEchoStreamMethod) return new StreamEcho;
    return grpc::CallbackGenericService::CreateReactor(context);  // UNIMPLEMENTED
  }
};

}  // namespace

EchoServer::EchoServer() : service_(std::make_unique<EchoService>()) {}

absl::StatusOr<std::unique_ptr<EchoServer>> EchoServer::Start(const std::string& address) {
  std::unique_ptr<EchoServer> echo(new EchoServer);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &echo->port_);
  builder.RegisterCallbackGenericService(echo->service_.get());
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  echo->server_ = builder.BuildAndStart();
  if (echo->server_ == nullptr || echo->port_ == 0) {
    return absl::UnavailableError(absl::StrCat("echo server: cannot listen on ", address));
  }
  // gRPC reads a port above 65535 as another one.
  if (!absl::EndsWith(address, ":0") && !absl::EndsWith(address, absl::StrCat(":", echo->port_))) {
    return absl::InvalidArgumentError(absl::StrCat("echo server: ", address, " is no address of a port up to 65535"));
  }
  return echo;
}

EchoServer::~EchoServer() {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
}

}  // namespace tessera::load
