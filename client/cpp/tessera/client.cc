#include "client/cpp/tessera/client.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/cpp/tessera/address_watch.h"
#include "client/cpp/tessera/attend_operation.h"
#include "client/cpp/tessera/client_checks.h"
#include "client/cpp/tessera/connection_pool.h"
#include "client/cpp/tessera/endpoint.h"
#include "client/cpp/tessera/health_check.h"
#include "client/cpp/tessera/server_set.h"
#include "client/cpp/tessera/status_conversion.h"
#include "client/cpp/tessera/timer_queue.h"
#include "grpcpp/client_context.h"
#include "tessera/v1/server.grpc.pb.h"

namespace tessera {
namespace {

void SetDeadline(grpc::ClientContext* context, absl::Time deadline) {
  if (deadline != absl::InfiniteFuture()) context->set_deadline(absl::ToChronoTime(deadline));
}

}  // namespace

class Client::Impl {
 public:
  Impl(const std::vector<Endpoint>& endpoints, const ClientOptions& options)
      : options_(options), servers_(options, options.every_address || endpoints.size() > 1, &timers_, [this] {
          if (addresses_ != nullptr) addresses_->Refresh();
        }) {
    if (options.every_address) {
      addresses_ = std::make_unique<AddressWatch>([name = endpoints.front().target] { return LookUpAddresses(name); },
                                                  &servers_);
      addresses_->AwaitFirst(kLongestLookUp);
    } else {
      servers_.Update(endpoints);
    }
  }

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
      operation = std::make_shared<AttendOperation>(&options_, &servers_, &timers_, call, std::move(callback),
                                                    [this, key] { Forget(key); });
      operations_.emplace(key, operation);
    }
    operation->Start();
    return CallHandle(operation);
  }

  // Has one server asked; where it is gone, the others in turn, each of which is avoided once it has failed.
  absl::Status Ask(const std::function<absl::Status(Connection*)>& ask) {
    absl::Status status = absl::UnavailableError("no server is known");
    ServerSet::Server* server = nullptr;
    do {
      server = servers_.Pick(server);
      if (server == nullptr) break;
      status = ask(ServerSet::PoolOf(server)->any());
      servers_.Return(server, status);
    } while (absl::IsUnavailable(status) && servers_.several() && servers_.HasAnother(server));
    return status;
  }

 private:
  static constexpr absl::Duration kLongestLookUp = absl::Seconds(5);

  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return operations_.empty(); }

  void Forget(uint64_t key) {
    absl::MutexLock lock(&mutex_);
    operations_.erase(key);  // its caller holds a reference, so that nothing is destroyed here
  }

  const ClientOptions options_;
  TimerQueue timers_;
  ServerSet servers_;                        // destroyed before timers_, which the end of its streams needs
  std::unique_ptr<AddressWatch> addresses_;  // where every address is a server

  absl::Mutex mutex_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<AttendOperation>> operations_ ABSL_GUARDED_BY(mutex_);
  uint64_t started_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& target, const ClientOptions& options) {
  const absl::StatusOr<std::vector<Endpoint>> endpoints = ParseTarget(target, options);
  if (!endpoints.ok()) return endpoints.status();
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  return std::unique_ptr<Client>(new Client(std::make_unique<Impl>(*endpoints, options)));
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
  const absl::Time deadline = absl::Now() + timeout;
  v1::GetServerInfoResponse response;
  const absl::Status status = impl_->Ask([&](Connection* connection) {
    grpc::ClientContext context;
    SetDeadline(&context, deadline);
    return UnavailableIfCancelled(
        ToAbslStatus(v1::ServerService::NewStub(connection->unary_channel())->GetServerInfo(&context, {}, &response)));
  });
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<v1::PlanTilesResponse> Client::PlanTiles(const v1::PlanTilesRequest& request, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  v1::PlanTilesResponse response;
  const absl::Status status = impl_->Ask([&](Connection* connection) {
    grpc::ClientContext context;
    SetDeadline(&context, deadline);
    return UnavailableIfCancelled(
        ToAbslStatus(v1::ServerService::NewStub(connection->unary_channel())->PlanTiles(&context, request, &response)));
  });
  if (!status.ok()) return status;
  return response;
}

absl::Status Client::CheckHealth(absl::string_view service, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  return impl_->Ask(
      [&](Connection* connection) { return tessera::CheckHealth(connection->unary_stub(), service, deadline); });
}

}  // namespace tessera
