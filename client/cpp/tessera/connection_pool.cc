#include "client/cpp/tessera/connection_pool.h"

#include <algorithm>

#include "client/cpp/tessera/channel.h"

namespace tessera {
namespace {

int64_t Share(int64_t bytes, size_t count) {
  const int64_t parts = static_cast<int64_t>(count);
  return (bytes + parts - 1) / parts;
}

}  // namespace

Connection::Connection(const Endpoint& endpoint, const ClientOptions& options, TimerQueue* timers)
    : tenant_(options.tenant),
      timers_(timers),
      unary_channel_(MakeUnaryChannel(endpoint, options)),
      unary_stub_(unary_channel_),
      stream_stub_(MakeStreamChannel(endpoint, options)) {}

std::pair<std::shared_ptr<StreamSession>, uint64_t> Connection::Register(const std::shared_ptr<StreamCall>& call,
                                                                         int part) {
  absl::MutexLock lock(&mutex_);
  while (!closed_) {
    if (std::shared_ptr<StreamSession> session = session_.lock()) {
      if (const uint64_t id = session->Register(call, part); id != 0) return {std::move(session), id};
      session->Retire();  // it is full, or over
    }
    {
      absl::MutexLock count_lock(&sessions_->mutex);
      ++sessions_->count;
    }
    session_ = StreamSession::Open(&stream_stub_, tenant_, timers_, [sessions = sessions_] {
      absl::MutexLock count_lock(&sessions->mutex);
      --sessions->count;
    });
  }
  return {nullptr, 0};
}

void Connection::Retire(const std::shared_ptr<StreamSession>& session) {
  {
    absl::MutexLock lock(&mutex_);
    if (session_.lock() == session) session_.reset();
  }
  session->Retire();
}

void Connection::Close() {
  std::shared_ptr<StreamSession> session;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    session = session_.lock();
  }
  if (session != nullptr) session->Retire();
  session.reset();
  absl::MutexLock lock(&sessions_->mutex);
  sessions_->mutex.Await(absl::Condition(
      +[](SessionCount* sessions) ABSL_NO_THREAD_SAFETY_ANALYSIS { return sessions->count == 0; }, sessions_.get()));
}

ConnectionPool::ConnectionPool(const Endpoint& endpoint, const ClientOptions& options, TimerQueue* timers) {
  for (int i = 0; i < options.connections; ++i) {
    connections_.push_back(std::make_unique<Connection>(endpoint, options, timers));
  }
}

ConnectionPool::~ConnectionPool() {
  for (const std::unique_ptr<Connection>& connection : connections_) connection->Close();
}

std::vector<Connection*> ConnectionPool::Take(int count, int64_t bytes) {
  const size_t first = turn_.fetch_add(static_cast<uint32_t>(count), std::memory_order_relaxed);
  std::vector<std::pair<int64_t, Connection*>> candidates;
  candidates.reserve(connections_.size());
  for (size_t i = 0; i < connections_.size(); ++i) {
    Connection* connection = connections_[(first + i) % connections_.size()].get();
    candidates.emplace_back(connection->outstanding_bytes().load(std::memory_order_relaxed), connection);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Connection*> taken;
  taken.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    taken.push_back(candidates[static_cast<size_t>(i)].second);
    taken.back()->outstanding_bytes().fetch_add(Share(bytes, static_cast<size_t>(count)), std::memory_order_relaxed);
  }
  return taken;
}

int64_t ConnectionPool::outstanding_bytes() const {
  int64_t bytes = 0;
  for (const std::unique_ptr<Connection>& connection : connections_) {
    bytes += connection->outstanding_bytes().load(std::memory_order_relaxed);
  }
  return bytes;
}

void ConnectionPool::Return(const std::vector<Connection*>& connections, int64_t bytes) {
  for (Connection* connection : connections) {
    connection->outstanding_bytes().fetch_sub(Share(bytes, connections.size()), std::memory_order_relaxed);
  }
}

}  // namespace tessera
