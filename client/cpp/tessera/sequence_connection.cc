#include "client/cpp/tessera/sequence_connection.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "client/cpp/tessera/channel.h"
#include "client/cpp/tessera/redirect.h"
#include "client/cpp/tessera/retry_after.h"
#include "client/cpp/tessera/status_conversion.h"
#include "proto/wire/attend_decode.h"

namespace tessera {

// An Extend call as an RPC of its own; gRPC watches its deadline.
class SequenceConnection::UnaryExtend final : public ExtendCarrier, public std::enable_shared_from_this<UnaryExtend> {
 public:
  UnaryExtend(SequenceConnection* connection, std::shared_ptr<ExtendOperation> call)
      : connection_(connection), call_(std::move(call)) {
    connection->Prepare(call_->deadline(), &context_);
    request_ = call_->UnaryMessage();
  }

  void Start() {
    connection_->unary_calls_.Add();
    call_->Carried(weak_from_this(), 0, /*deadline_watched=*/true);
    connection_->generic_stub_.UnaryCall(
        &context_, kMethod, {}, &request_, &response_,
        [self = shared_from_this()](const grpc::Status& status) mutable { OnDone(std::move(self), status); });
  }

  void Withdraw(uint64_t) override { context_.TryCancel(); }
  void GiveUp() override { context_.TryCancel(); }

 private:
  static constexpr char kMethod[] = "/tessera.v1.SequenceService/Extend";

  static void OnDone(std::shared_ptr<UnaryExtend> self, const grpc::Status& status) {
    self->request_.Clear();
    SequenceConnection* const connection = self->connection_;
    const std::shared_ptr<ExtendOperation> call = self->call_;
    if (!status.ok()) {
      const absl::Duration retry_after = PushbackOf(self->context_);
      const std::string redirect = RedirectIn(self->context_);
      self.reset();
      call->OnFailure(WithRedirect(WithRetryAfter(ToAbslStatus(status), retry_after), redirect));
    } else {
      const absl::StatusOr<wire::DecodedExtendResponse> answer = wire::DecodeExtendResponse(self->response_);
      self.reset();
      if (answer.ok()) {
        call->OnAnswer(*answer);
      } else {
        call->OnFailure(absl::InternalError(answer.status().message()));
      }
    }
    connection->unary_calls_.Remove();
  }

  SequenceConnection* const connection_;
  const std::shared_ptr<ExtendOperation> call_;
  grpc::ClientContext context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
};

struct SequenceConnection::LimitsQuestion {
  grpc::ClientContext context;
  v1::GetServerInfoRequest request;
  v1::GetServerInfoResponse response;
};

SequenceConnection::SequenceConnection(const Endpoint& endpoint, const ClientOptions& options)
    : options_(options),
      channel_(MakeStreamChannel(endpoint, options)),
      generic_stub_(channel_),
      stub_(v1::SequenceService::NewStub(channel_)),
      server_stub_(v1::ServerService::NewStub(channel_)) {}

void SequenceConnection::Start(const std::shared_ptr<ExtendOperation>& call) {
  if (options_.transport == Transport::kUnary) {
    std::make_shared<UnaryExtend>(this, call)->Start();
  } else {
    Stream()->Start(call);
  }
}

std::shared_ptr<ExtendRpc> SequenceConnection::Stream() {
  absl::MutexLock lock(&mutex_);
  if (!streams_.empty() && !streams_.back()->over()) return streams_.back();
  streams_.erase(std::remove_if(streams_.begin(), streams_.end(), [](const auto& stream) { return stream->ended(); }),
                 streams_.end());
  const std::shared_ptr<ExtendRpc>& stream = streams_.emplace_back(ExtendRpc::Open(&generic_stub_, options_.tenant));
  AskLimits(stream);
  return stream;
}

void SequenceConnection::AskLimits(const std::shared_ptr<ExtendRpc>& stream) {
  if (const auto last = limits_question_.lock()) last->context.TryCancel();
  auto question = std::make_shared<LimitsQuestion>();
  limits_question_ = question;
  Prepare(absl::Now() + kLimitsTimeout, &question->context);
  unary_calls_.Add();
  LimitsQuestion& call = *question;
  server_stub_->async()->GetServerInfo(&call.context, &call.request, &call.response,
                                       [this, stream = stream, question](const grpc::Status& status) mutable {
                                         if (status.ok()) stream->Allow(question->response.limits().max_stream_calls());
                                         stream.reset();
                                         question.reset();
                                         unary_calls_.Remove();
                                       });
}

void SequenceConnection::ReleaseSoon(const std::string& handle) {
  struct Release {
    grpc::ClientContext context;
    v1::ReleaseSequencesRequest request;
    v1::ReleaseSequencesResponse response;
  };
  auto release = std::make_shared<Release>();
  Prepare(absl::Now() + kGoodbyeTimeout, &release->context);
  release->request.add_sequences(handle);
  unary_calls_.Add();
  Release& call = *release;
  stub_->async()->ReleaseSequences(&call.context, &call.request, &call.response,
                                   [this, release](const grpc::Status&) mutable {
                                     release.reset();
                                     unary_calls_.Remove();
                                   });
}

absl::Time SequenceConnection::DeadlineAfter(absl::Duration timeout) const {
  if (timeout == absl::ZeroDuration()) timeout = options_.default_timeout;
  return timeout == absl::InfiniteDuration() ? absl::InfiniteFuture() : absl::Now() + timeout;
}

void SequenceConnection::HalfClose() {
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<ExtendRpc>& stream : streams_) stream->HalfClose();
  if (const auto question = limits_question_.lock()) question->context.TryCancel();
}

void SequenceConnection::Close(absl::Time deadline) {
  std::vector<std::shared_ptr<ExtendRpc>> streams;
  {
    absl::MutexLock lock(&mutex_);
    streams.swap(streams_);
  }
  for (const std::shared_ptr<ExtendRpc>& stream : streams) stream->Close(deadline);
  unary_calls_.AwaitNone();
}

bool SequenceConnection::AwaitRetry(const RetryPolicy& policy, int attempt, const absl::Status& status,
                                    absl::Time deadline) {
  const absl::Duration delay = RetryAfter(status);
  if (!absl::IsResourceExhausted(status) || delay == absl::ZeroDuration() || attempt >= policy.max_attempts ||
      absl::Now() + delay >= deadline) {
    return false;
  }
  absl::SleepFor(delay);
  return true;
}

void SequenceConnection::Prepare(absl::Time deadline, grpc::ClientContext* context) const {
  if (!options_.tenant.empty()) context->AddMetadata("tessera-tenant", options_.tenant);
  if (deadline != absl::InfiniteFuture()) context->set_deadline(absl::ToChronoTime(deadline));
}

absl::Status SequenceConnection::StatusOf(const grpc::ClientContext& context, const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return WithRedirect(WithRetryAfter(UnavailableIfCancelled(ToAbslStatus(status)), PushbackOf(context)),
                      RedirectIn(context));
}

}  // namespace tessera
