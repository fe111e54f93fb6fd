// A Tessera server: puts the parts together, starts and stops them in order.
//
//   devices, clock         given, outlive the server
//   metrics, observer      what happened
//   budget, admission      who gets in
//   schedulers, engines    who runs when: one of each a device
//   caches                 resident sequences: one a profile
//   security               who may call
//   services, gRPC server  who is talked to
#ifndef TESSERA_SERVER_SERVER_H_
#define TESSERA_SERVER_SERVER_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/server.h"
#include "prometheus/collectable.h"
#include "server/clock/clock.h"
#include "server/config/config.h"
#include "server/credentials/token_table.h"
#include "server/device/device.h"
#include "server/engine/engine.h"
#include "server/lease_sweep.h"
#include "server/memory/byte_budget.h"
#include "server/metrics/exposer.h"
#include "server/metrics/server_metrics.h"
#include "server/observers.h"
#include "server/port_security.h"
#include "server/region/region_host.h"
#include "server/rpc/admission.h"
#include "server/rpc/attention_service.h"
#include "server/rpc/deadline_watch.h"
#include "server/rpc/health_port.h"
#include "server/rpc/listener.h"
#include "server/rpc/open_rpcs.h"
#include "server/rpc/region_service.h"
#include "server/rpc/sequence_environment.h"
#include "server/rpc/sequence_service.h"
#include "server/rpc/server_service.h"
#include "server/scheduler/scheduler_group.h"

namespace tessera {

// Life: Start serves. StopAccepting tells balancers to go elsewhere but changes nothing else; Drain then ends the
// serving in order. The destructor stops at once: open RPCs are cancelled, what runs is waited for. The three are
// called by one thread, in this order; each may be left out.
class Server {
 public:
  // Called once, on an engine thread, when the last device is lost. Health has said NOT_SERVING first; then every open
  // call, those still being received included, has been ended with UNAVAILABLE "device lost", as are those that come
  // later. Their answers may still be on their way: Drain sends them off. The process should end with exit code 70
  // (kDeviceLostExitCode).
  //
  // Where a device is lost and others are left, its calls end in the same way and the server goes on serving.
  using FatalFn = std::function<void(const absl::Status&)>;

  static constexpr int kDeviceLostExitCode = 70;

  // INVALID_ARGUMENT for a configuration that makes no sense, or files that it names and that do not, UNAVAILABLE where
  // a port cannot be had. REQUIRES: at least one device, all on one staging pool, each at the place that its index
  // names.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerConfig& config, std::vector<Device*> devices,
                                                       Clock* clock, FatalFn on_fatal);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  // 0 where it is a Unix socket.
  int grpc_port() const { return listener_->port(); }
  // 0 where none is served.
  int metrics_port() const { return exposer_ == nullptr ? 0 : exposer_->port(); }
  int health_port() const { return health_ == nullptr ? 0 : health_->port(); }

  // What /metrics serves.
  const std::vector<std::shared_ptr<prometheus::Collectable>>& collectables() const { return collectables_; }

  // Health says NOT_SERVING from now on. Calls are still admitted.
  void StopAccepting();

  // Refuses new calls with UNAVAILABLE, lets admitted ones end until `timeout` has passed, aborts the rest with
  // UNAVAILABLE (but unary calls that run: gRPC waits a moment longer for their answers), and closes the connections.
  // Returns whether all calls ended by themselves.
  //
  // gRPC cancels calls that come while it shuts down, and their callers cannot tell why. So, once every call has ended,
  // connections are accepted no more, but calls on those that are open go on being refused with UNAVAILABLE until none
  // has come for kQuietTime and the last answer has been sent, or most of kFlushTime has passed.
  bool Drain(absl::Duration timeout);
  // What Drain takes at most after `timeout`.
  static constexpr absl::Duration kFlushTime = absl::Seconds(5);

  // Waits, in real time, until no memory of a call or message is held, and no region: a connection may hold slices of
  // answers beyond the end of their calls. Where this returns false neither the server nor the device may be destroyed.
  // REQUIRES: Drain.
  bool AwaitMemory(absl::Duration timeout) const;

 private:
  // Shorter than kDrainRetry, so that who was refused comes back when it is over.
  static constexpr absl::Duration kQuietTime = absl::Milliseconds(100);
  // Of kFlushTime: how long gRPC may take to close the connections.
  static constexpr absl::Duration kCloseTime = absl::Milliseconds(500);

  Server(const ServerConfig& config, std::vector<Device*> devices, Clock* clock, FatalFn on_fatal);

  absl::Status Secure();
  // Takes the memory of the profiles' pages, profile i's of device i modulo their number.
  absl::Status OpenCaches();
  // Ends the calls that are open on streams, wherever they are.
  void EndStreamCalls(const absl::Status& status);
  // Ends what waits for its turn on sequences of `device`, or of all where it is not given.
  void EndWaitingForTurns(const absl::Status& status, std::optional<size_t> device = std::nullopt);
  absl::Status ExposeMetrics();
  absl::Status Listen();
  StagingPool& staging() const { return devices_.front()->staging(); }
  std::vector<v1::DeviceInfo> DescribeDevices() const;
  ServerFacts Facts();
  // `told` is what callers hear.
  void OnDeviceLost(size_t device, const absl::Status& told);
  void OnDeviceFatal(size_t device, const absl::Status& why);
  bool Lost(size_t device) const;

  const ServerConfig config_;
  const std::vector<Device*> devices_;
  Clock* const clock_;
  const FatalFn on_fatal_;

  Tokens tokens_;
  ServerMetrics metrics_;
  OpenRpcs open_rpcs_;
  MetricsObserver observer_;
  ByteBudget budget_;
  Admission admission_;
  SchedulerGroup scheduler_;
  DeadlineWatch deadlines_;
  const AttendEnvironment environment_;
  RegionHost region_host_;
  SequenceEnvironment sequences_;
  LeaseSweep lease_sweep_;
  AttentionService attention_service_;
  RegionService region_service_;
  SequenceService sequence_service_;
  ServerService server_service_;
  std::unique_ptr<PortSecurity> security_;
  std::unique_ptr<HealthPort> health_;  // null: none
  std::unique_ptr<grpc::Server> grpc_server_;
  std::unique_ptr<Listener> listener_;
  mutable absl::Mutex loss_mutex_;
  std::vector<bool> lost_ ABSL_GUARDED_BY(loss_mutex_);  // one a device
  size_t engines_left_ ABSL_GUARDED_BY(loss_mutex_);     // that have not said on_fatal
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables_;
  std::unique_ptr<MetricsExposer> exposer_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_SERVER_H_
