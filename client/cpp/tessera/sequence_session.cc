#include "client/cpp/tessera/sequence_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "client/cpp/tessera/client_checks.h"
#include "client/cpp/tessera/retry_after.h"
#include "client/cpp/tessera/sequence_connection.h"

namespace tessera {
namespace {

using Connections = std::vector<std::shared_ptr<SequenceConnection>>;

int64_t Sequences(const Connections& server) {
  int64_t sequences = 0;
  for (const std::shared_ptr<SequenceConnection>& connection : server) sequences += connection->sequences();
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
  std::vector<Server> servers;
  for (const Endpoint& endpoint : *endpoints) {
    Server& server = servers.emplace_back();
    for (int i = 0; i < options.connections; ++i) {
      server.push_back(std::make_shared<SequenceConnection>(endpoint, options));
    }
  }
  return std::unique_ptr<SequenceSession>(new SequenceSession(options, std::move(servers)));
}

SequenceSession::SequenceSession(const ClientOptions& options, std::vector<Server> servers)
    : options_(options), servers_(std::move(servers)) {}

SequenceSession::~SequenceSession() {
  std::vector<std::shared_ptr<ExtendOperation>> operations;
  {
    absl::MutexLock lock(&mutex_);
    operations.reserve(operations_.size());
    for (const auto& [key, operation] : operations_) operations.push_back(operation);
  }
  for (const std::shared_ptr<ExtendOperation>& operation : operations) operation->Cancel();
  operations.clear();
  for (const Server& server : servers_) {
    for (const std::shared_ptr<SequenceConnection>& connection : server) connection->HalfClose();
  }
  const absl::Time deadline = absl::Now() + SequenceConnection::kGoodbyeTimeout;
  for (const Server& server : servers_) {
    for (const std::shared_ptr<SequenceConnection>& connection : server) connection->Close(deadline);
  }
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &SequenceSession::Idle));
}

absl::StatusOr<std::vector<ResidentSequence>> SequenceSession::Create(absl::string_view profile, uint32_t count,
                                                                      absl::Duration timeout) {
  v1::CreateSequencesRequest request;
  request.set_profile(std::string(profile));
  request.set_count(count);
  const absl::Time deadline = servers_.front().front()->DeadlineAfter(timeout);
  absl::Status refusal;  // of the server that may be asked again soonest
  int attempt = 1;
  do {
    refusal = absl::OkStatus();
    std::vector<const Server*> candidates;
    for (const Server& server : servers_) candidates.push_back(&server);
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Server* a, const Server* b) { return Sequences(*a) < Sequences(*b); });
    for (const Server* server : candidates) {
      const std::shared_ptr<SequenceConnection>& connection = *std::min_element(
          server->begin(), server->end(), [](const auto& a, const auto& b) { return a->sequences() < b->sequences(); });
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

absl::StatusOr<std::shared_ptr<SequenceConnection>> SequenceSession::Route(const ExtendCall& call) const {
  const Server* home = nullptr;
  std::shared_ptr<SequenceConnection> first;
  for (size_t i = 0; i < call.steps.size(); ++i) {
    const std::shared_ptr<SequenceConnection> connection = call.steps[i].sequence->connection_.lock();
    const auto has = [&](const Server& server) {
      return std::find(server.begin(), server.end(), connection) != server.end();
    };
    if (home != nullptr) {
      if (has(*home)) continue;
      return absl::InvalidArgumentError(absl::StrCat("step ", i, ": its sequence is not where step 0's is"));
    }
    const auto found = std::find_if(servers_.begin(), servers_.end(), has);
    if (found == servers_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("step ", i, ": its sequence is not of this session"));
    }
    home = &*found;
    first = connection;
  }
  return first;
}

CallHandle SequenceSession::ExtendAsync(const ExtendCall& call, ExtendCallback callback) {
  return Start(call, servers_.front().front()->DeadlineAfter(call.timeout), std::move(callback));
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
  const absl::Time deadline = servers_.front().front()->DeadlineAfter(call.timeout);
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
