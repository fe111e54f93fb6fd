// A server inside the test's process: real sockets, a clock that stands still, a device that fails on a script.
#ifndef TESSERA_TESTS_SERVER_TEST_SERVER_H_
#define TESSERA_TESTS_SERVER_TEST_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "server/clock/fake_clock.h"
#include "server/config/config.h"
#include "server/device/fault_device.h"
#include "server/server.h"
#include "tessera/v1/attention.grpc.pb.h"
#include "tessera/v1/server.grpc.pb.h"
#include "tests/server/metrics_reader.h"

namespace tessera::testing {

// What /metrics of a server would serve. The servers of most tests have no HTTP port, for closing one takes two
// seconds.
std::string MetricsText(const Server& server);

// The CPU backend on two threads and one slot a device, on a free port.
class TestServer {
 public:
  // Small enough for tests to fill: 8 MiB of staging, 32 MiB in flight, all of it for one tenant.
  static ServerConfig Config();

  // `faults` as server/device/fault_script.h describes them.
  explicit TestServer(const std::string& faults = "", const ServerConfig& config = Config(), int devices = 1);

  FakeClock& clock() { return clock_; }
  FaultDevice& device(size_t index = 0) { return *devices_[index]; }
  Server& server() { return *server_; }
  // Of the last device's loss; waits for it.
  absl::Status AwaitFatal();

  // On a connection of its own.
  std::shared_ptr<grpc::Channel> NewChannel() const;
  // All on one connection.
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  v1::AttentionService::Stub& attention() { return *attention_; }

  std::string MetricsText() const { return testing::MetricsText(*server_); }
  MetricsReader Metrics() const { return MetricsReader(MetricsText()); }
  v1::GetServerInfoResponse Info() const;
  // Each of these ends the test program where it takes kLongestWait. Asks the server for its occupancy until `done`
  // says so.
  void AwaitOccupancy(const std::function<bool(const v1::Occupancy&)>& done) const;
  // In the schedulers' queues, not those that wait for their turn on a sequence.
  void AwaitQueued(uint32_t requests) const;
  // Until nothing is admitted and no staging memory is in use.
  void AwaitIdle() const;
  // Looks until `done` says so.
  void AwaitMetrics(const std::function<bool(const MetricsReader&)>& done) const;
  // Looks until `sample` has `value`.
  void AwaitMetric(const std::string& sample, double value) const;
  bool Serving(const std::string& service = "") const;

 private:
  FakeClock clock_;
  std::vector<std::unique_ptr<FaultDevice>> devices_;
  absl::Mutex mutex_;
  absl::Status fatal_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::AttentionService::Stub> attention_;
};

// A unary call under way.
class UnaryCall {
 public:
  // `on_done`, where there is one, runs when the answer is there, on gRPC's thread.
  UnaryCall(v1::AttentionService::Stub& stub, v1::AttendRequest request, const std::string& tenant = "",
            absl::Duration timeout = absl::InfiniteDuration(), std::function<void()> on_done = nullptr);
  UnaryCall(const UnaryCall&) = delete;
  UnaryCall& operator=(const UnaryCall&) = delete;
  // Cancels and waits.
  ~UnaryCall();

  void Cancel() { context_.TryCancel(); }
  bool done() const { return done_.HasBeenNotified(); }
  const grpc::Status& Await();
  const v1::AttendRequest& request() const { return request_; }
  const v1::AttendResponse& response() const { return response_; }
  // Of the trailing metadata; empty where it is missing. REQUIRES: Await.
  std::string RetryPushback() const;

 private:
  const v1::AttendRequest request_;
  v1::AttendResponse response_;
  grpc::ClientContext context_;
  grpc::Status status_;
  absl::Notification done_;
};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_TEST_SERVER_H_
