#include "client/cpp/tessera/sequence_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "client/cpp/tessera/client_checks.h"
#include "client/cpp/tessera/redirect.h"
#include "client/cpp/tessera/retry_after.h"
#include "client/cpp/tessera/sequence_connection.h"
#include "proto/wire/server_id.h"

namespace tessera {
namespace {

int64_t Sequences(const std::vector<std::shared_ptr<SequenceConnection>>& connections) {
  int64_t sequences = 0;
  for (const std::shared_ptr<SequenceConnection>& connection : connections) sequences += connection->sequences();
  return sequences;
}

// When a server that has refused a call may be asked again; infinite where it has not said so.
absl::Duration Wait(const absl::Status& refusal) {
  const absl::Duration wait = RetryAfter(refusal);
  return absl::IsResourceExhausted(refusal) && wait > absl::ZeroDuration() ? wait : absl::InfiniteDuration();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SequenceSession>> SequenceSession::Connect(const std::string& target,
                                                                          const ClientOptions& options) {
  const absl::StatusOr<std::vector<Endpoint>> endpoints = ParseTarget(target, options);
  if (!endpoints.ok()) return endpoints.status();
  if (options.every_address) {
    return absl::InvalidArgumentError("every_address: a sequence stays on its server; name the servers");
  }
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  std::vector<std::unique_ptr<Server>> servers;
  for (const Endpoint& endpoint : *endpoints) servers.push_back(Open(endpoint, options));
  return std::unique_ptr<SequenceSession>(new SequenceSession(options, std::move(servers)));
}

SequenceSession::SequenceSession(const ClientOptions& options, std::vector<std::unique_ptr<Server>> servers)
    : options_(options), servers_(std::move(servers)) {}

std::unique_ptr<SequenceSession::Server> SequenceSession::Open(const Endpoint& endpoint, const ClientOptions& options) {
  auto server = std::make_unique<Server>();
  server->endpoint = endpoint;
  for (int i = 0; i < options.connections; ++i) {
    server->connections.push_back(std::make_shared<SequenceConnection>(endpoint, options));
  }
  return server;
}

const std::shared_ptr<SequenceConnection>& SequenceSession::LeastUsed(const Server& server) {
  return *std::min_element(server.connections.begin(), server.connections.end(),
                           [](const auto& a, const auto& b) { return a->sequences() < b->sequences(); });
}

std::vector<const SequenceSession::Server*> SequenceSession::Known() const {
  std::vector<const Server*> known;
  for (const std::unique_ptr<Server>& server : servers_) known.push_back(server.get());
  absl::MutexLock lock(&mutex_);
  for (const std::unique_ptr<Server>& server : redirected_) known.push_back(server.get());
  return known;
}

const SequenceSession::Server* SequenceSession::HomeOf(const SequenceConnection* connection) const {
  const auto has = [connection](const std::unique_ptr<Server>& server) {
    return std::any_of(server->connections.begin(), server->connections.end(),
                       [connection](const auto& one) { return one.get() == connection; });
  };
  const auto found = std::find_if(servers_.begin(), servers_.end(), has);
  if (found != servers_.end()) return found->get();
  absl::MutexLock lock(&mutex_);
  const auto redirected = std::find_if(redirected_.begin(), redirected_.end(), has);
  return redirected == redirected_.end() ? nullptr : redirected->get();
}

absl::StatusOr<const SequenceSession::Server*> SequenceSession::ServerAt(const std::string& address) {
  const absl::StatusOr<std::vector<Endpoint>> endpoints = ParseTarget(address, options_);
  if (!endpoints.ok() || endpoints->size() != 1 || absl::StartsWith(address, "unix") ||
      absl::StrContains(address, '/')) {
    return absl::InternalError("the server names no host and port as the place of the sequence");
  }
  for (const Server* server : Known()) {
    if (server->endpoint == endpoints->front()) return server;
  }
  std::unique_ptr<Server> opened = Open(endpoints->front(), options_);
  absl::MutexLock lock(&mutex_);
  for (const std::unique_ptr<Server>& server : redirected_) {
    if (server->endpoint == opened->endpoint) return server.get();
  }
  return redirected_.emplace_back(std::move(opened)).get();
}

SequenceSession::~SequenceSession() {
  std::vector<std::shared_ptr<ExtendOperation>> operations;
  {
    absl::MutexLock lock(&mutex_);
    operations.reserve(operations_.size());
    for (const auto& [key, operation] : operations_) operations.push_back(operation);
  }
  for (const std::shared_ptr<ExtendOperation>& operation : operations) operation->Cancel();
  operations.clear();
  const std::vector<const Server*> servers = Known();
  for (const Server* server : servers) {
    for (const std::shared_ptr<SequenceConnection>& connection : server->connections) connection->HalfClose();
  }
  const absl::Time deadline = absl::Now() + SequenceConnection::kGoodbyeTimeout;
  for (const Server* server : servers) {
    for (const std::shared_ptr<SequenceConnection>& connection : server->connections) connection->Close(deadline);
  }
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &SequenceSession::Idle));
}

absl::StatusOr<std::vector<ResidentSequence>> SequenceSession::Create(absl::string_view profile, uint32_t count,
                                                                      absl::Duration timeout) {
  v1::CreateSequencesRequest request;
  request.set_profile(std::string(profile));
  request.set_count(count);
  const absl::Time deadline = servers_.front()->connections.front()->DeadlineAfter(timeout);
  absl::Status refusal;  // of the server that may be asked again soonest
  int attempt = 1;
  do {
    refusal = absl::OkStatus();
    std::vector<const Server*> candidates;
    for (const std::unique_ptr<Server>& server : servers_) candidates.push_back(server.get());
    std::stable_sort(candidates.begin(), candidates.end(), [](const Server* a, const Server* b) {
      return Sequences(a->connections) < Sequences(b->connections);
    });
    for (const Server* server : candidates) {
      const std::shared_ptr<SequenceConnection>& connection = LeastUsed(*server);
      v1::CreateSequencesResponse response;
      const absl::Status status =
          connection->Ask(&v1::SequenceService::Stub::CreateSequences, request, deadline, &response);
      if (status.ok()) {
        const auto shared = std::make_shared<const v1::CacheProfile>(std::move(*response.mutable_profile()));
        std::vector<ResidentSequence> sequences;
        sequences.reserve(static_cast<size_t>(response.sequences_size()));
        for (const std::string& handle : response.sequences()) {
          sequences.push_back(ResidentSequence(connection, handle, shared));
        }
        return sequences;
      }
      if (!absl::IsUnavailable(status) && !absl::IsResourceExhausted(status)) return status;
      if (refusal.ok() || Wait(status) < Wait(refusal)) refusal = status;
    }
  } while (SequenceConnection::AwaitRetry(options_.retry, attempt++, refusal, deadline));
  return refusal;
}

absl::StatusOr<ResidentSequence> SequenceSession::AttachFrom(const Server& server, const std::string& handle,
                                                             absl::Time deadline) {
  const std::shared_ptr<SequenceConnection>& connection = LeastUsed(server);
  v1::GetSequenceRequest request;
  request.set_sequence(handle);
  v1::GetSequenceResponse response;
  if (absl::Status status = connection->Ask(&v1::SequenceService::Stub::GetSequence, request, deadline, &response);
      !status.ok()) {
    return status;
  }
  auto profile = std::make_shared<const v1::CacheProfile>(std::move(*response.mutable_profile()));
  return ResidentSequence(connection, handle, std::move(profile));
}

absl::StatusOr<ResidentSequence> SequenceSession::Attach(const std::string& handle, absl::Duration timeout) {
  const absl::Time deadline = servers_.front()->connections.front()->DeadlineAfter(timeout);
  std::vector<const Server*> candidates = Known();
  const auto named = std::find_if(candidates.begin(), candidates.end(), [&](const Server* server) {
    return absl::StartsWith(handle, wire::ServerId(server->endpoint.target));
  });
  if (named != candidates.end()) candidates = {*named};
  absl::StatusOr<ResidentSequence> attached = absl::NotFoundError("there is no server to ask");
  for (const Server* server : candidates) {
    attached = AttachFrom(*server, handle, deadline);
    if (const std::string address = RedirectAddress(attached.status()); !address.empty()) {
      const absl::StatusOr<const Server*> home = ServerAt(address);
      if (!home.ok()) return home.status();
      return AttachFrom(**home, handle, deadline);
    }
    if (attached.ok() || !(absl::IsNotFound(attached.status()) || absl::IsUnavailable(attached.status()))) break;
  }
  return attached;
}

absl::StatusOr<std::shared_ptr<SequenceConnection>> SequenceSession::Route(const ExtendCall& call) const {
  const Server* home = nullptr;
  std::shared_ptr<SequenceConnection> first;
  for (size_t i = 0; i < call.steps.size(); ++i) {
    const std::shared_ptr<SequenceConnection> connection = call.steps[i].sequence->connection_.lock();
    if (home != nullptr && connection == first) continue;
    const Server* const server = HomeOf(connection.get());
    if (home == nullptr) {
      if (server == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat("step ", i, ": its sequence is not of this session"));
      }
      home = server;
      first = connection;
    } else if (server != home) {
      return absl::InvalidArgumentError(absl::StrCat("step ", i, ": its sequence is not where step 0's is"));
    }
  }
  return first;
}

CallHandle SequenceSession::ExtendAsync(const ExtendCall& call, ExtendCallback callback) {
  return Start(call, servers_.front()->connections.front()->DeadlineAfter(call.timeout), std::move(callback));
}

CallHandle SequenceSession::Start(const ExtendCall& call, absl::Time deadline, ExtendCallback callback) {
  absl::StatusOr<v1::ExtendHeader> header = MakeExtendHeader(call);
  if (!header.ok()) {
    callback(header.status());
    return CallHandle();
  }
  const absl::StatusOr<std::shared_ptr<SequenceConnection>> connection = Route(call);
  if (!connection.ok()) {
    callback(connection.status());
    return CallHandle();
  }
  std::shared_ptr<ExtendOperation> operation;
  {
    absl::MutexLock lock(&mutex_);
    const uint64_t key = ++started_;
    operation = std::make_shared<ExtendOperation>(
        call, *std::move(header), deadline, options_.stall_timeout, &timers_, std::move(callback), [this, key] {
          absl::MutexLock forget_lock(&mutex_);
          operations_.erase(key);  // the operation holds itself, so that nothing is destroyed here
        });
    operations_.emplace(key, operation);
  }
  (*connection)->Start(operation);
  return CallHandle(operation);
}

absl::StatusOr<ExtendReply> SequenceSession::Extend(const ExtendCall& call) {
  const absl::Time deadline = servers_.front()->connections.front()->DeadlineAfter(call.timeout);
  for (int attempts = 1;; ++attempts) {
    absl::StatusOr<ExtendReply> reply;
    absl::Notification done;
    Start(call, deadline, [&](absl::StatusOr<ExtendReply> end) {
      reply = std::move(end);
      done.Notify();
    });
    done.WaitForNotification();
    if (reply.ok()) reply->attempts = attempts;
    if (reply.ok() || !SequenceConnection::AwaitRetry(options_.retry, attempts, reply.status(), deadline)) return reply;
  }
}

}  // namespace tessera
