#include "server/observers.h"

#include <string>

#include "prometheus/metric_type.h"
#include "server/metrics/metric_names.h"
#include "server/process/logging.h"

namespace tessera {

void MetricsObserver::OnRpcStarted(RpcMethod method) {
  open_rpcs_->Started();
  metrics_->RpcStarted(method);
}

void MetricsObserver::OnRpcHandled(RpcMethod method, absl::StatusCode code, absl::Duration time) {
  open_rpcs_->Ended();
  metrics_->RpcHandled(method, static_cast<int>(code), absl::ToDoubleSeconds(time));
  if (LogEnabled(LogLevel::kDebug)) {
    Log(LogLevel::kDebug, "rpc",
        {{"method", kRpcMethodLabels[static_cast<size_t>(method)].method},
         {"code", absl::StatusCodeToString(code)},
         {"ms", absl::ToDoubleMilliseconds(time)}});
  }
}

void MetricsObserver::OnStage(Stage stage, absl::Duration time) {
  metrics_->StageTime(stage, absl::ToDoubleSeconds(time));
}

void MetricsObserver::OnPayloadCopied(int64_t bytes) { metrics_->Copied(bytes); }
void MetricsObserver::OnRegionPayload(RegionMemory memory, int64_t read, int64_t written) {
  metrics_->RegionPayload(memory, read, written);
}
void MetricsObserver::OnRejected(RejectReason reason) { metrics_->Rejected(reason); }
void MetricsObserver::OnExpired(Station where) { metrics_->Expired(where); }
void MetricsObserver::OnCancelled(Station where) { metrics_->Cancelled(where); }

void MetricsObserver::OnBatch(const DeviceInfo& device, DType dtype, int64_t jobs, int64_t tokens,
                              const BatchOutcome& outcome) {
  BatchCounts counts;
  counts.requests = jobs;
  counts.tokens = tokens;
  counts.copy_in_seconds = absl::ToDoubleSeconds(outcome.times.copy_in);
  counts.compute_seconds = absl::ToDoubleSeconds(outcome.times.compute);
  counts.copy_out_seconds = absl::ToDoubleSeconds(outcome.times.copy_out);
  counts.flops = outcome.stats.flops;
  counts.hbm_bytes = outcome.stats.hbm_bytes;
  counts.tiles_computed = outcome.stats.tiles_computed;
  counts.tiles_skipped = outcome.stats.tiles_skipped;
  metrics_->Batch(static_cast<size_t>(device.index), static_cast<size_t>(dtype), counts);
  if (absl::IsCancelled(outcome.status)) {
    Log(LogLevel::kDebug, "batch_stopped", {{"device", device.index}, {"requests", jobs}});
  } else if (!outcome.status.ok()) {
    // A lack of memory is a full device's way to say no; tessera_rejected_total counts those.
    Log(absl::IsResourceExhausted(outcome.status) ? LogLevel::kDebug : LogLevel::kWarning, "batch_failed",
        {{"device", device.index},
         {"requests", jobs},
         {"sticky", outcome.sticky},
         {"status", outcome.status.ToString()}});
  }
}

void MetricsObserver::OnDropped(absl::StatusCode /*code*/, Job::State /*where*/) {}

void AddServerGauges(const SchedulerGroup* scheduler, const ByteBudget* budget, const RegionQuota* regions,
                     const std::vector<Device*>& devices, const std::vector<ResidentCachePtr>& caches,
                     ScrapeGauges* gauges) {
  const auto number = [](auto value) { return static_cast<double>(value); };
  gauges->Add(metric_names::kQueueRequests, "Calls waiting.", {}, [=] { return number(scheduler->queued_jobs()); });
  gauges->Add(metric_names::kQueueBytes, "Bytes of the calls waiting.", {},
              [=] { return number(scheduler->queued_bytes()); });
  gauges->Add(metric_names::kTurnRequests, "Calls that wait for their turn on a sequence, or for its pages.", {},
              [=] { return number(scheduler->expected_jobs()); });
  gauges->Add(metric_names::kTurnBytes, "Bytes of the calls that wait for their turn or for pages.", {},
              [=] { return number(scheduler->expected_bytes()); });
  gauges->Add(metric_names::kInflightBytes, "Bytes of received messages and admitted calls.", {},
              [=] { return number(budget->in_use()); });
  gauges->Add(metric_names::kRegions, "Regions open, of either kind.", {},
              [=] { return number(regions->in_use().regions); });
  gauges->Add(metric_names::kRegionBytes, "Shared memory of regions, the most and what is open.",
              {{"kind", "capacity"}}, [=] { return number(regions->most().bytes); });
  gauges->Add(metric_names::kRegionBytes, "Shared memory of regions, the most and what is open.", {{"kind", "used"}},
              [=] { return number(regions->in_use().bytes); });
  const StagingPool* const staging = &devices.front()->staging();
  const char* const pinned =
      "Staging memory, in all and in use, and beside it the host's room for pages and what steps' page tables have "
      "taken.";
  gauges->Add(metric_names::kPinnedMemoryBytes, pinned, {{"kind", "capacity"}},
              [=] { return number(staging->capacity()); });
  gauges->Add(metric_names::kPinnedMemoryBytes, pinned, {{"kind", "used"}}, [=] { return number(staging->in_use()); });
  int64_t host_pages = 0;
  for (const ResidentCachePtr& cache : caches) host_pages += cache->profile().host_bytes();
  gauges->Add(metric_names::kPinnedMemoryBytes, pinned, {{"kind", "host_pages"}}, [=] { return number(host_pages); });
  gauges->Add(metric_names::kPinnedMemoryBytes, pinned, {{"kind", "tables"}}, [=] {
    int64_t bytes = 0;
    for (const Device* device : devices) bytes += device->pinned_launch_memory();
    return number(bytes);
  });
  for (const Device* device : devices) {
    const DeviceInfo info = device->info();
    const std::string index = std::to_string(info.index);
    gauges->Add(metric_names::kDeviceMemoryBytes,
                "The device's arena, in all and in use, and what launches have taken beside it.",
                {{"device", index}, {"kind", "capacity"}}, [=] { return number(info.memory_bytes); });
    gauges->Add(metric_names::kDeviceMemoryBytes,
                "The device's arena, in all and in use, and what launches have taken beside it.",
                {{"device", index}, {"kind", "used"}}, [=] { return number(device->memory_in_use()); });
    gauges->Add(metric_names::kDeviceMemoryBytes,
                "The device's arena, in all and in use, and what launches have taken beside it.",
                {{"device", index}, {"kind", "launch"}}, [=] { return number(device->launch_memory()); });
  }
}

void AddCacheGauges(const std::vector<ResidentCachePtr>& caches, ScrapeGauges* gauges) {
  for (const ResidentCachePtr& cache : caches) {
    const auto pages = [cache] { return cache->sequences().counts().device; };
    const std::string& profile = cache->profile().name;
    gauges->Add(metric_names::kKvPages, "Pages of the KV cache, by what they are.",
                {{"profile", profile}, {"state", "used"}},
                [pages] { return static_cast<double>(pages().total - pages().free); });
    gauges->Add(metric_names::kKvPages, "Pages of the KV cache, by what they are.",
                {{"profile", profile}, {"state", "free"}}, [pages] { return static_cast<double>(pages().free); });
  }
  for (const ResidentCachePtr& cache : caches) {
    gauges->Add(metric_names::kKvHostPages, "Pages of idle sequences that wait in the host's memory.",
                {{"profile", cache->profile().name}}, [cache] {
                  const PageCounts pages = cache->sequences().counts().host;
                  return static_cast<double>(pages.total - pages.free);
                });
  }
  for (const ResidentCachePtr& cache : caches) {
    const std::string& profile = cache->profile().name;
    const char* const help = "Pages that were moved to the host's memory, and back to the device.";
    gauges->Add(
        metric_names::kKvMovedPages, help, {{"profile", profile}, {"to", "host"}},
        [cache] { return static_cast<double>(cache->sequences().counts().pages_to_host); },
        prometheus::MetricType::Counter);
    gauges->Add(
        metric_names::kKvMovedPages, help, {{"profile", profile}, {"to", "device"}},
        [cache] { return static_cast<double>(cache->sequences().counts().pages_from_host); },
        prometheus::MetricType::Counter);
  }
  for (const ResidentCachePtr& cache : caches) {
    gauges->Add(metric_names::kKvSequences, "Resident sequences.", {{"profile", cache->profile().name}},
                [cache] { return static_cast<double>(cache->sequences().counts().sequences); });
  }
}

}  // namespace tessera
