// A call as one Attend RPC. Where there is one server, gRPC itself retries after UNAVAILABLE and after a CANCELLED that
// comes from the server, by the channel's service config; it watches the deadline. RESOURCE_EXHAUSTED is left to the
// operation, for only the library can tell a server that is full, and says when to come back, from a message that is
// too large for the transport.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/tessera/answer_buffer.h"
#include "client/cpp/tessera/attempt.h"
#include "client/cpp/tessera/request_payload.h"
#include "client/cpp/tessera/retry_after.h"
#include "client/cpp/tessera/status_conversion.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/wire/attend_decode.h"
#include "proto/wire/attend_encode.h"

namespace tessera {
namespace {

constexpr char kMethod[] = "/tessera.v1.AttentionService/Attend";

class UnaryAttempt final : public Attempt, public std::enable_shared_from_this<UnaryAttempt> {
 public:
  UnaryAttempt(const AttemptContext& context, EndFn on_end)
      : call_(*context.call),
        options_(*context.options),
        pool_(context.pool),
        several_servers_(context.several_servers),
        timers_(context.timers),
        on_end_(std::move(on_end)),
        payload_({call_.q, call_.k, call_.v}),
        answer_(call_.o, call_.lse),
        bytes_(payload_.size() + answer_.size()) {
    absl::MutexLock lock(&mutex_);
    if (context.deadline != absl::InfiniteFuture()) rpc_->set_deadline(absl::ToChronoTime(context.deadline));
  }

  void Start() override {
    if (const int64_t larger = std::max(payload_.size(), answer_.size()); larger > options_.unary_limit_bytes) {
      end_.status = absl::InvalidArgumentError(
          absl::StrCat("a unary call of ", larger, " bytes is above unary_limit_bytes = ", options_.unary_limit_bytes));
      End();
      return;
    }
    grpc::ClientContext* rpc = nullptr;  // nobody resets it before the call below is over
    {
      absl::MutexLock lock(&mutex_);
      rpc = rpc_.get();
    }
    connections_ = pool_->Take(1, bytes_);
    Connection* connection = connections_.front();
    if (!connection->tenant().empty()) rpc->AddMetadata("tessera-tenant", connection->tenant());
    v1::AttendRequest head;
    *head.mutable_header() = call_.header;
    const int64_t q_size = static_cast<int64_t>(call_.q.size());
    const int64_t k_size = static_cast<int64_t>(call_.k.size());
    const int64_t v_size = static_cast<int64_t>(call_.v.size());
    request_ = wire::EncodeAttendRequest(head, payload_.Slices(0, q_size), payload_.Slices(q_size, k_size),
                                         payload_.Slices(q_size + k_size, v_size));
    connection->unary_stub()->UnaryCall(
        rpc, kMethod, {}, &request_, &response_,
        [self = shared_from_this()](const grpc::Status& status) { self->OnDone(status); });
  }

  void Abort(const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    if (rpc_ == nullptr) return;
    abort_ = status;
    rpc_->TryCancel();
  }

 private:
  void OnDone(const grpc::Status& status) {
    request_.Clear();
    absl::Status abort;
    {
      // With it goes the RPC, which may hold slices for a retry.
      absl::MutexLock lock(&mutex_);
      if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
        end_.retry_after = PushbackOf(*rpc_);
        end_.retryable = end_.retry_after > absl::ZeroDuration();
      }
      rpc_.reset();
      abort = abort_;
    }
    ConnectionPool::Return(connections_, bytes_);
    if (status.ok()) {
      end_.status = TakeAnswer();
    } else {
      end_.status = abort.ok() ? UnavailableIfCancelled(ToAbslStatus(status)) : abort;
      if (several_servers_ && absl::IsUnavailable(end_.status)) end_.retryable = true;
    }
    response_.Clear();
    End();
  }

  absl::Status TakeAnswer() {
    absl::StatusOr<wire::DecodedAttendResponse> answer = wire::DecodeAttendResponse(response_);
    if (!answer.ok()) return absl::InternalError(answer.status().message());
    if (!answer->result.has_value()) return absl::InternalError("the server's answer has no result");
    if (absl::Status status = answer_.Check(*answer->result); !status.ok()) return status;
    if (answer->o.size() != call_.o.size() || answer->lse.size() != call_.lse.size()) {
      return absl::InternalError("the server's answer has less or more payload than its result says");
    }
    answer_.Write(0, answer->o);
    answer_.Write(static_cast<int64_t>(call_.o.size()), answer->lse);
    end_.result = *std::move(answer->result);
    return absl::OkStatus();
  }

  void End() {
    payload_.Release([self = shared_from_this()] { self->on_end_(std::move(self->end_)); }, timers_);
  }

  const AttendCall& call_;
  const ClientOptions& options_;
  ConnectionPool* const pool_;
  const bool several_servers_;
  TimerQueue* const timers_;
  const EndFn on_end_;
  RequestPayload payload_;
  const AnswerBuffer answer_;
  const int64_t bytes_;
  std::vector<Connection*> connections_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  AttemptEnd end_;

  absl::Mutex mutex_;
  std::unique_ptr<grpc::ClientContext> rpc_ ABSL_GUARDED_BY(mutex_) = std::make_unique<grpc::ClientContext>();
  absl::Status abort_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<Attempt> MakeUnaryAttempt(const AttemptContext& context, Attempt::EndFn on_end) {
  return std::make_shared<UnaryAttempt>(context, std::move(on_end));
}

}  // namespace tessera
