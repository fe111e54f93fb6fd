#include "client/cpp/tessera/attend_operation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/wire/slice_reader.h"

namespace tessera {
namespace {

absl::Time DeadlineOf(const AttendCall& call, const ClientOptions& options) {
  const absl::Duration timeout = call.timeout == absl::ZeroDuration() ? options.default_timeout : call.timeout;
  return timeout == absl::InfiniteDuration() ? absl::InfiniteFuture() : absl::Now() + timeout;
}

uint64_t Tokens(const google::protobuf::RepeatedField<uint32_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), uint64_t{0});
}

// 0 for a type that no tensor has, which the server refuses.
uint64_t ElementBytes(v1::DataType dtype) {
  if (dtype == v1::DATA_TYPE_FLOAT32) return 4;
  return dtype == v1::DATA_TYPE_FLOAT16 || dtype == v1::DATA_TYPE_BFLOAT16 ? 2 : 0;
}

// Of a stream whose header promises more bytes than there are, the server would wait for the rest.
absl::Status CheckTensor(const char* name, size_t bytes, uint64_t tokens, uint32_t heads,
                         const v1::AttendHeader& header) {
  const uint64_t element_bytes = ElementBytes(header.dtype());
  uint64_t expected = 0;
  const bool overflows = __builtin_mul_overflow(tokens, heads * element_bytes, &expected) ||
                         __builtin_mul_overflow(expected, uint64_t{header.head_dim()}, &expected);
  if (element_bytes == 0 || (!overflows && bytes == expected)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " has ", bytes, " bytes for ", tokens, " tokens of ", heads,
                                                 " heads of ", header.head_dim(), " elements of ", element_bytes,
                                                 " bytes"));
}

}  // namespace

absl::Status CheckCall(const AttendCall& call) {
  if (call.o.size() != call.q.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("o has ", call.o.size(), " bytes, and must have as many as q: ", call.q.size()));
  }
  if (call.k.size() != call.v.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("v has ", call.v.size(), " bytes, and must have as many as k: ", call.k.size()));
  }
  const v1::AttendHeader& header = call.header;
  if (const size_t size = header.ByteSizeLong(); size > wire::SliceReader::kMaxSubmessageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header takes ", size, " bytes, above the limit of ", wire::SliceReader::kMaxSubmessageBytes));
  }
  const uint64_t q_tokens = Tokens(header.q_lengths());
  const uint64_t kv_tokens = header.kv_lengths().empty() ? q_tokens : Tokens(header.kv_lengths());
  if (absl::Status status = CheckTensor("q", call.q.size(), q_tokens, header.q_heads(), header); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckTensor("k", call.k.size(), kv_tokens, header.kv_heads(), header); !status.ok()) {
    return status;
  }
  uint64_t lse_bytes = 0;
  if (header.options().return_lse() && __builtin_mul_overflow(q_tokens, header.q_heads() * sizeof(float), &lse_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("q_lengths: an LSE for ", q_tokens, " tokens is too large"));
  }
  if (call.lse.size() != lse_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("lse has ", call.lse.size(), " bytes, expected ", lse_bytes, " for this header"));
  }
  return absl::OkStatus();
}

absl::Duration Backoff(const RetryPolicy& policy, int attempt) {
  const absl::Duration grown =
      std::min(policy.initial_backoff * std::pow(policy.backoff_multiplier, attempt - 1), policy.max_backoff);
  absl::BitGen random;
  return grown * absl::Uniform(random, 0.8, 1.2);
}

AttendOperation::AttendOperation(const ClientOptions* options, ServerSet* servers, TimerQueue* timers, AttendCall call,
                                 AttendCallback callback, std::function<void()> on_gone)
    : options_(*options),
      servers_(servers),
      timers_(timers),
      call_(std::move(call)),
      deadline_(DeadlineOf(call_, options_)),
      callback_(std::move(callback)),
      on_gone_(std::move(on_gone)) {}

void AttendOperation::Start() {
  // A unary call's deadline is watched by gRPC.
  if (options_.transport != Transport::kUnary && deadline_ != absl::InfiniteFuture()) {
    absl::MutexLock lock(&mutex_);
    deadline_timer_ = timers_->Schedule(deadline_, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Abort(absl::DeadlineExceededError("the deadline has passed"));
    });
  }
  StartAttempt();
}

void AttendOperation::Cancel() { Abort(absl::CancelledError("cancelled by the caller")); }

void AttendOperation::Abort(const absl::Status& status) {
  std::shared_ptr<Attempt> attempt;
  bool waiting = false;
  {
    absl::MutexLock lock(&mutex_);
    if (!abort_.ok()) return;
    abort_ = status;
    attempt = attempt_;
    if (backoff_timer_.has_value()) waiting = timers_->Cancel(*backoff_timer_);
  }
  if (attempt != nullptr) attempt->Abort(status);
  if (waiting) Finish(status);
}

void AttendOperation::StartAttempt() {
  std::shared_ptr<Attempt> attempt;
  absl::Status aborted;
  {
    absl::MutexLock lock(&mutex_);
    backoff_timer_.reset();
    aborted = abort_;
    if (aborted.ok()) server_ = servers_->Pick(server_);
    if (aborted.ok() && server_ == nullptr) {
      ++attempts_;
      aborted = absl::UnavailableError("no server is known");
      AttemptEnd end;
      end.status = aborted;
      end.retryable = true;
      if (ScheduleRetry(end)) return;
    }
    if (aborted.ok()) {
      AttemptContext context;
      context.call = &call_;
      context.deadline = deadline_;
      context.options = &options_;
      context.pool = ServerSet::PoolOf(server_);
      context.several_servers = servers_->several();
      context.timers = timers_;
      auto on_end = [self = shared_from_this()](AttemptEnd end) { self->OnAttemptEnd(std::move(end)); };
      attempt = options_.transport == Transport::kUnary ? MakeUnaryAttempt(context, std::move(on_end))
                                                        : MakeStreamAttempt(context, std::move(on_end));
      attempt_ = attempt;
      ++attempts_;
    }
  }
  if (attempt == nullptr) {
    Finish(aborted);
    return;
  }
  attempt->Start();
}

void AttendOperation::OnAttemptEnd(AttemptEnd end) {
  absl::StatusOr<AttendReply> reply;
  std::shared_ptr<Attempt> ended;  // destroyed without the lock
  {
    absl::MutexLock lock(&mutex_);
    ended = std::move(attempt_);
    servers_->Return(server_, end.status);
    if (end.status.ok()) {
      reply = AttendReply{std::move(end.result), attempts_, end.connections};
    } else if (!abort_.ok()) {
      reply = abort_;
    } else if (ScheduleRetry(end)) {
      return;
    } else {
      reply = std::move(end.status);
    }
  }
  Finish(std::move(reply));
}

bool AttendOperation::ScheduleRetry(const AttemptEnd& end) {
  if (!end.retryable || attempts_ >= options_.retry.max_attempts) return false;
  absl::Duration delay = end.retry_after > absl::ZeroDuration() ? end.retry_after : Backoff(options_.retry, attempts_);
  // A server that is full says when to come back, and the others may be as full; one that is gone says nothing of them.
  if (absl::IsUnavailable(end.status) && servers_->HasAnother(server_)) delay = absl::ZeroDuration();
  const absl::Time when = absl::Now() + delay;
  if (when >= deadline_) return false;
  backoff_timer_ = timers_->Schedule(when, [self = shared_from_this()] { self->StartAttempt(); });
  return true;
}

void AttendOperation::Finish(absl::StatusOr<AttendReply> reply) {
  {
    absl::MutexLock lock(&mutex_);
    if (deadline_timer_.has_value()) timers_->Cancel(*deadline_timer_);
  }
  const std::shared_ptr<AttendOperation> self = shared_from_this();
  callback_(std::move(reply));
  callback_ = nullptr;  // lets go of what it holds before the client may be gone
  on_gone_();
}

}  // namespace tessera
