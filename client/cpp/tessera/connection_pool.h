// The client's connections to one server, and the choice among them.
#ifndef TESSERA_CLIENT_CPP_TESSERA_CONNECTION_POOL_H_
#define TESSERA_CLIENT_CPP_TESSERA_CONNECTION_POOL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/tessera/endpoint.h"
#include "client/cpp/tessera/options.h"
#include "client/cpp/tessera/stream_session.h"
#include "client/cpp/tessera/timer_queue.h"
#include "grpcpp/channel.h"
#include "grpcpp/generic/generic_stub.h"

namespace tessera {

// One TCP connection for streams, with the stream that is open on it, and one for unary calls. gRPC opens either when
// it is first used, and again after a failure. Thread-safe.
class Connection {
 public:
  // The timers outlive the connection.
  Connection(const Endpoint& endpoint, const ClientOptions& options, TimerQueue* timers);
  // REQUIRES: Close has returned.
  ~Connection() = default;

  const std::shared_ptr<grpc::Channel>& unary_channel() const { return unary_channel_; }
  grpc::GenericStub* unary_stub() { return &unary_stub_; }
  const std::string& tenant() const { return tenant_; }

  // Registers the call with the open session, or with a new one. The caller pumps the session then. Null after Close.
  std::pair<std::shared_ptr<StreamSession>, uint64_t> Register(const std::shared_ptr<StreamCall>& call, int part)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Lets the session end with the calls that it has; the next call gets a new one.
  void Retire(const std::shared_ptr<StreamSession>& session) ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the sessions and waits until the last is destroyed, which takes as long as the server takes to end a stream,
  // at most StreamSession::kGoodbyeTimeout. REQUIRES: no call is open.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // Bytes of the calls in flight, by which the pool chooses.
  std::atomic<int64_t>& outstanding_bytes() { return outstanding_bytes_; }

 private:
  // Outlives the connection where the last session's destructor does.
  struct SessionCount {
    absl::Mutex mutex;
    int count ABSL_GUARDED_BY(mutex) = 0;
  };

  const std::string tenant_;
  TimerQueue* const timers_;
  const std::shared_ptr<grpc::Channel> unary_channel_;
  grpc::GenericStub unary_stub_;
  grpc::GenericStub stream_stub_;
  std::atomic<int64_t> outstanding_bytes_{0};
  const std::shared_ptr<SessionCount> sessions_ = std::make_shared<SessionCount>();

  absl::Mutex mutex_;
  // Weak: a session that is over must let go of its RPC, whose buffers may refer to the memory of calls.
  std::weak_ptr<StreamSession> session_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Thread-safe.
class ConnectionPool {
 public:
  // The timers outlive the pool.
  ConnectionPool(const Endpoint& endpoint, const ClientOptions& options, TimerQueue* timers);
  ~ConnectionPool();

  int size() const { return static_cast<int>(connections_.size()); }

  // The `count` connections with the fewest bytes outstanding; among equals they take turns. Their outstanding bytes
  // grow by `bytes` / `count` each, rounded up, until Return. REQUIRES: 1 <= count <= size().
  std::vector<Connection*> Take(int count, int64_t bytes);
  // REQUIRES: what Take returned, and the same `bytes`.
  static void Return(const std::vector<Connection*>& connections, int64_t bytes);

  Connection* any() { return Take(1, 0).front(); }

  // Of the calls in flight, over all connections.
  int64_t outstanding_bytes() const;

 private:
  std::vector<std::unique_ptr<Connection>> connections_;
  std::atomic<uint32_t> turn_{0};
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_CONNECTION_POOL_H_
