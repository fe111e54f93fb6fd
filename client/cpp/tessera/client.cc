#include "client/cpp/tessera/client.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/cpp/tessera/attend_operation.h"
#include "client/cpp/tessera/connection_pool.h"
#include "client/cpp/tessera/health_check.h"
#include "client/cpp/tessera/status_conversion.h"
#include "client/cpp/tessera/timer_queue.h"
#include "grpcpp/client_context.h"
#include "proto/wire/attend_encode.h"
#include "tessera/v1/server.grpc.pb.h"

namespace tessera {
namespace {

absl::Status CheckRange(absl::string_view name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ", outside ", least, " to ", most));
}

// Resolvers read a port above 65535 as another one: 65537 as 1.
absl::Status CheckTarget(absl::string_view target) {
  if (absl::StartsWith(target, "unix")) return absl::OkStatus();
  for (const absl::string_view address : absl::StrSplit(target, ',')) {
    const size_t colon = address.rfind(':');
    if (colon == absl::string_view::npos) continue;
    const absl::string_view digits = address.substr(colon + 1);
    if (digits.empty() || !std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit)) continue;
    int port = 0;
    if (!absl::SimpleAtoi(digits, &port) || port > 65535) {
      return absl::InvalidArgumentError(absl::StrCat("target is ", target, ", whose port is above 65535"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const ClientOptions& options) {
  constexpr int64_t kMessageLimit = static_cast<int64_t>(wire::kMaxMessageBytes) - (2 << 20);  // room for the header
  absl::Status status = CheckRange("connections", options.connections, 1, 1024);
  status.Update(CheckRange("chunk_bytes", options.chunk_bytes, 1, kMessageLimit));
  status.Update(CheckRange("stripe_threshold_bytes", options.stripe_threshold_bytes, 1, INT64_MAX));
  status.Update(CheckRange("unary_limit_bytes", options.unary_limit_bytes, 0, kMessageLimit));
  status.Update(CheckRange("retry.max_attempts", options.retry.max_attempts, 1, 1000));
  const auto backoff = [](absl::Duration value) { return value >= absl::Microseconds(1) && value <= absl::Hours(1); };
  if (!backoff(options.retry.initial_backoff) || !backoff(options.retry.max_backoff)) {
    status.Update(absl::InvalidArgumentError("retry: the backoffs must be 1 us to 1 h"));
  }
  if (!(options.retry.backoff_multiplier >= 1 && options.retry.backoff_multiplier <= 100)) {
    status.Update(absl::InvalidArgumentError("retry.backoff_multiplier must be 1 to 100"));
  }
  for (const absl::Duration keepalive : {options.keepalive_time, options.keepalive_timeout}) {
    if (keepalive < absl::Milliseconds(1)) {
      status.Update(absl::InvalidArgumentError("keepalive_time and keepalive_timeout must be at least 1 ms"));
    }
  }
  if (options.stall_timeout <= absl::ZeroDuration()) {
    status.Update(absl::InvalidArgumentError("stall_timeout must be positive"));
  }
  // gRPC stops the process over others.
  if (!std::all_of(options.tenant.begin(), options.tenant.end(), absl::ascii_isprint)) {
    status.Update(absl::InvalidArgumentError("tenant must be printable ASCII"));
  }
  if (options.default_timeout <= absl::ZeroDuration()) {
    status.Update(absl::InvalidArgumentError("default_timeout must be positive"));
  }
  return status;
}

void SetDeadline(grpc::ClientContext* context, absl::Duration timeout) {
  if (timeout != absl::InfiniteDuration()) context->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
}

}  // namespace

class Client::Impl {
 public:
  Impl(const std::string& target, const ClientOptions& options) : options_(options), pool_(target, options, &timers_) {}

  ~Impl() {
    std::vector<std::shared_ptr<AttendOperation>> operations;
    {
      absl::MutexLock lock(&mutex_);
      operations.reserve(operations_.size());
      for (const auto& [key, operation] : operations_) operations.push_back(operation);
    }
    for (const std::shared_ptr<AttendOperation>& operation : operations) operation->Cancel();
    operations.clear();
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Impl::Idle));
  }

  CallHandle Start(const AttendCall& call, AttendCallback callback) {
    if (absl::Status status = CheckCall(call); !status.ok()) {
      callback(status);
      return CallHandle();
    }
    std::shared_ptr<AttendOperation> operation;
    {
      absl::MutexLock lock(&mutex_);
      const uint64_t key = ++started_;
      operation = std::make_shared<AttendOperation>(&options_, &pool_, &timers_, call, std::move(callback),
                                                    [this, key] { Forget(key); });
      operations_.emplace(key, operation);
    }
    operation->Start();
    return CallHandle(operation);
  }

  Connection* any_connection() { return pool_.any(); }

 private:
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return operations_.empty(); }

  void Forget(uint64_t key) {
    absl::MutexLock lock(&mutex_);
    operations_.erase(key);  // its caller holds a reference, so that nothing is destroyed here
  }

  const ClientOptions options_;
  TimerQueue timers_;
  ConnectionPool pool_;  // destroyed first: the end of its streams needs timers_

  absl::Mutex mutex_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<AttendOperation>> operations_ ABSL_GUARDED_BY(mutex_);
  uint64_t started_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& target, const ClientOptions& options) {
  if (absl::Status status = CheckTarget(target); !status.ok()) return status;
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  return std::unique_ptr<Client>(new Client(std::make_unique<Impl>(target, options)));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Client::~Client() = default;

CallHandle Client::AttendAsync(const AttendCall& call, AttendCallback callback) {
  return impl_->Start(call, std::move(callback));
}

absl::StatusOr<AttendReply> Client::Attend(const AttendCall& call) {
  absl::StatusOr<AttendReply> reply;
  absl::Notification done;
  impl_->Start(call, [&reply, &done](absl::StatusOr<AttendReply> end) {
    reply = std::move(end);
    done.Notify();
  });
  done.WaitForNotification();
  return reply;
}

absl::StatusOr<v1::GetServerInfoResponse> Client::GetServerInfo(absl::Duration timeout) {
  grpc::ClientContext context;
  SetDeadline(&context, timeout);
  v1::GetServerInfoResponse response;
  const grpc::Status status =
      v1::ServerService::NewStub(impl_->any_connection()->unary_channel())->GetServerInfo(&context, {}, &response);
  if (!status.ok()) return UnavailableIfCancelled(ToAbslStatus(status));
  return response;
}

absl::StatusOr<v1::PlanTilesResponse> Client::PlanTiles(const v1::PlanTilesRequest& request, absl::Duration timeout) {
  grpc::ClientContext context;
  SetDeadline(&context, timeout);
  v1::PlanTilesResponse response;
  const grpc::Status status =
      v1::ServerService::NewStub(impl_->any_connection()->unary_channel())->PlanTiles(&context, request, &response);
  if (!status.ok()) return UnavailableIfCancelled(ToAbslStatus(status));
  return response;
}

absl::Status Client::CheckHealth(absl::string_view service, absl::Duration timeout) {
  return tessera::CheckHealth(impl_->any_connection()->unary_stub(), service, absl::Now() + timeout);
}

}  // namespace tessera
