#include "client/cpp/tessera/server_set.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

#include "absl/base/internal/raw_logging.h"

namespace tessera {

struct ServerSet::Server {
  Server(const Endpoint& place, const ClientOptions& options, TimerQueue* timers)
      : endpoint(place), pool(place, options, timers) {}

  const Endpoint endpoint;
  ConnectionPool pool;
  // Guarded by the set's mutex.
  int calls = 0;
  int failures = 0;  // in a row
  absl::Time avoided_until = absl::InfinitePast();
};

namespace {

absl::Duration Avoidance(int failures) {
  return std::min(ServerSet::kFirstAvoidance * std::exp2(std::min(failures, 30) - 1), ServerSet::kLongestAvoidance);
}

// gRPC would try the same server again.
ClientOptions WithoutRetriesOfGrpc(ClientOptions options) {
  options.retry.max_attempts = 1;
  return options;
}

}  // namespace

ServerSet::ServerSet(const ClientOptions& options, bool several, TimerQueue* timers, std::function<void()> on_failure,
                     std::function<absl::Time()> now)
    : options_(several ? WithoutRetriesOfGrpc(options) : options),
      several_(several),
      timers_(timers),
      on_failure_(std::move(on_failure)),
      now_(std::move(now)) {}

ServerSet::~ServerSet() {
  absl::MutexLock lock(&mutex_);
  for (const auto* servers : {&servers_, &leaving_}) {
    for (const std::unique_ptr<Server>& server : *servers) ABSL_RAW_CHECK(server->calls == 0, "a call is still open");
  }
}

ConnectionPool* ServerSet::PoolOf(Server* server) { return &server->pool; }

void ServerSet::Update(const std::vector<Endpoint>& endpoints) {
  std::vector<std::unique_ptr<Server>> gone;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  std::vector<std::unique_ptr<Server>> kept;
  for (const Endpoint& endpoint : endpoints) {
    const auto is_there = [&](const std::unique_ptr<Server>& server) {
      return server != nullptr && server->endpoint == endpoint;
    };
    // Named twice, it is still one server.
    if (std::any_of(kept.begin(), kept.end(), is_there)) continue;
    const auto known = std::find_if(servers_.begin(), servers_.end(), is_there);
    kept.push_back(known == servers_.end() ? std::make_unique<Server>(endpoint, options_, timers_) : std::move(*known));
  }
  for (std::unique_ptr<Server>& server : servers_) {
    if (server != nullptr) leaving_.push_back(std::move(server));
  }
  servers_ = std::move(kept);
  const auto idle =
      std::partition(leaving_.begin(), leaving_.end(), [](const auto& server) { return server->calls > 0; });
  std::move(idle, leaving_.end(), std::back_inserter(gone));
  leaving_.erase(idle, leaving_.end());
}

bool ServerSet::Avoided(const Server& server, absl::Time now) {
  return server.failures > 0 && now < server.avoided_until;
}

ServerSet::Server* ServerSet::Pick(const Server* except) {
  const absl::Time now = several_ ? now_() : absl::InfinitePast();
  absl::MutexLock lock(&mutex_);
  if (servers_.empty()) return nullptr;
  // What is better comes first; equals take turns.
  const auto rank = [&](const Server& server) {
    const bool avoided = Avoided(server, now);
    return std::make_tuple(avoided, &server == except, avoided ? server.avoided_until : absl::InfinitePast(),
                           server.pool.outstanding_bytes(), server.calls);
  };
  Server* best = nullptr;
  ++turn_;
  for (size_t i = 0; i < servers_.size(); ++i) {
    Server* server = servers_[(turn_ + i) % servers_.size()].get();
    if (best == nullptr || rank(*server) < rank(*best)) best = server;
  }
  // A trial: the others stay away until it has been answered, or for longer than the last time.
  if (best->failures > 0 && !Avoided(*best, now)) best->avoided_until = now + Avoidance(++best->failures);
  ++best->calls;
  return best;
}

void ServerSet::Return(Server* server, const absl::Status& end) {
  bool failed = false;
  {
    absl::MutexLock lock(&mutex_);
    --server->calls;
    if (absl::IsUnavailable(end)) {
      // Calls that were open together fail together, and a trial has been counted: one failure.
      const absl::Time now = now_();
      failed = several_ && !Avoided(*server, now);
      if (failed) server->avoided_until = now + Avoidance(++server->failures);
    } else if (!absl::IsCancelled(end) && !absl::IsDeadlineExceeded(end)) {  // these say nothing of the server
      server->failures = 0;
    }
  }
  if (failed && on_failure_ != nullptr) on_failure_();
}

bool ServerSet::HasAnother(const Server* server) const {
  const absl::Time now = now_();
  absl::MutexLock lock(&mutex_);
  return std::any_of(servers_.begin(), servers_.end(),
                     [&](const auto& other) { return other.get() != server && !Avoided(*other, now); });
}

}  // namespace tessera
