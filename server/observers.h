// Binds what the RPC layer and the engine report to the metrics.
#ifndef TESSERA_SERVER_OBSERVERS_H_
#define TESSERA_SERVER_OBSERVERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/engine/engine.h"
#include "server/metrics/scrape_gauges.h"
#include "server/metrics/server_metrics.h"
#include "server/region/region_quota.h"
#include "server/request/resident_cache.h"
#include "server/rpc/admission.h"
#include "server/rpc/open_rpcs.h"
#include "server/rpc/rpc_observer.h"
#include "server/scheduler/scheduler_group.h"

namespace tessera {

// Thread-safe. The metrics and the count of RPCs outlive it.
class MetricsObserver final : public RpcObserver, public EngineObserver {
 public:
  MetricsObserver(ServerMetrics* metrics, OpenRpcs* open_rpcs) : metrics_(metrics), open_rpcs_(open_rpcs) {}

  void OnRpcStarted(RpcMethod method) override;
  // Also logs the RPC at debug level.
  void OnRpcHandled(RpcMethod method, absl::StatusCode code, absl::Duration time) override;
  void OnStage(Stage stage, absl::Duration time) override;
  void OnPayloadCopied(int64_t bytes) override;
  void OnRegionPayload(RegionMemory memory, int64_t read, int64_t written) override;
  void OnRejected(RejectReason reason) override;
  void OnExpired(Station where) override;
  void OnCancelled(Station where) override;

  void OnBatch(const DeviceInfo& device, DType dtype, int64_t jobs, int64_t tokens,
               const BatchOutcome& outcome) override;
  // Nothing: the RPC layer counts every call once, when it ends.
  void OnDropped(absl::StatusCode code, Job::State where) override;

 private:
  ServerMetrics* const metrics_;
  OpenRpcs* const open_rpcs_;
};

// Gauges of the queue, of the bytes in flight, of regions, and of memory: the devices', and the host's that they copy
// from and to. All outlive `gauges`. REQUIRES: at least one device.
void AddServerGauges(const SchedulerGroup* scheduler, const ByteBudget* budget, const RegionQuota* regions,
                     const std::vector<Device*>& devices, const std::vector<ResidentCachePtr>& caches,
                     ScrapeGauges* gauges);

// Gauges of the resident sequences and their pages, by profile.
void AddCacheGauges(const std::vector<ResidentCachePtr>& caches, ScrapeGauges* gauges);

}  // namespace tessera

#endif  // TESSERA_SERVER_OBSERVERS_H_
