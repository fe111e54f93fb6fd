#include "server/metrics/server_metrics.h"

#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "server/metrics/metric_names.h"

namespace tessera {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;

// Seconds, from 10 us to a minute.
const Histogram::BucketBoundaries& LatencyBuckets() {
  static const Histogram::BucketBoundaries* const kBuckets =
      new Histogram::BucketBoundaries{10e-6, 20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3,
                                      50e-3, 0.1,   0.2,   0.5,    1,      2,      5,    10,   30,   60};
  return *kBuckets;
}

Histogram::BucketBoundaries PowersOf(double base, double last) {
  Histogram::BucketBoundaries buckets;
  for (double bound = 1; bound <= last; bound *= base) buckets.push_back(bound);
  return buckets;
}

template <size_t N>
std::array<Counter*, N> CountersOver(Family<Counter>& family, const char* label,
                                     const std::array<const char*, N>& values) {
  std::array<Counter*, N> counters{};
  for (size_t i = 0; i < N; ++i) counters[i] = &family.Add({{label, values[i]}});
  return counters;
}

}  // namespace

ServerMetrics::ServerMetrics(const BuildLabels& build, const std::vector<DeviceLabels>& devices) {
  BuildGauge()
      .Name(metric_names::kBuildInfo)
      .Help("1; its labels name the build.")
      .Register(*registry_)
      .Add({{"version", build.version}, {"revision", build.revision}, {"backend", build.backend}})
      .Set(1);
  AddRpcMetrics();

  Family<Histogram>& stages = BuildHistogram()
                                  .Name(metric_names::kStageSeconds)
                                  .Help("Time of a stage: receive, queue and send a call, the others a batch.")
                                  .Register(*registry_);
  for (size_t i = 0; i < kStageLabels.size(); ++i)
    stages_[i] = &stages.Add({{"stage", kStageLabels[i]}}, LatencyBuckets());

  copied_ = &BuildCounter()
                 .Name(metric_names::kCopiedBytes)
                 .Help("Tensor bytes the server copied in host memory.")
                 .Register(*registry_)
                 .Add({{"direction", "receive"}});
  Family<Counter>& region_payload = BuildCounter()
                                        .Name(metric_names::kRegionPayloadBytes)
                                        .Help("Tensor bytes of answered calls that lay in regions, not in messages.")
                                        .Register(*registry_);
  for (size_t i = 0; i < kRegionMemoryLabels.size(); ++i) {
    region_read_[i] = &region_payload.Add({{"memory", kRegionMemoryLabels[i]}, {"direction", "read"}});
    region_written_[i] = &region_payload.Add({{"memory", kRegionMemoryLabels[i]}, {"direction", "written"}});
  }
  rejected_ = CountersOver(BuildCounter()
                               .Name(metric_names::kRejected)
                               .Help("Calls and connections refused, by reason.")
                               .Register(*registry_),
                           "reason", kRejectReasonLabels);
  expired_ = CountersOver(BuildCounter()
                              .Name(metric_names::kExpired)
                              .Help("Calls dropped because their deadline passed, by where they were.")
                              .Register(*registry_),
                          "where", kStationLabels);
  cancelled_ = CountersOver(BuildCounter()
                                .Name(metric_names::kCancelled)
                                .Help("Calls dropped because their caller gave up, by where they were.")
                                .Register(*registry_),
                            "where", kStationLabels);
  Family<Counter>& reloads = BuildCounter()
                                 .Name(metric_names::kCredentialReloads)
                                 .Help("Files of credentials that changed: taken, or refused for what they hold.")
                                 .Register(*registry_);
  for (size_t i = 0; i < kCredentialKindLabels.size(); ++i) {
    credentials_taken_[i] = &reloads.Add({{"kind", kCredentialKindLabels[i]}, {"result", "taken"}});
    credentials_refused_[i] = &reloads.Add({{"kind", kCredentialKindLabels[i]}, {"result", "refused"}});
  }
  AddDeviceMetrics(devices);
}

void ServerMetrics::AddRpcMetrics() {
  Family<Counter>& started = BuildCounter().Name(metric_names::kGrpcStarted).Help("RPCs started.").Register(*registry_);
  Family<Counter>& handled =
      BuildCounter().Name(metric_names::kGrpcHandled).Help("RPCs ended, by status code.").Register(*registry_);
  Family<Histogram>& seconds = BuildHistogram()
                                   .Name(metric_names::kGrpcHandlingSeconds)
                                   .Help("Time from an RPC's start to its end.")
                                   .Register(*registry_);
  for (size_t i = 0; i < kRpcMethodLabels.size(); ++i) {
    const RpcMethodLabels& names = kRpcMethodLabels[i];
    const prometheus::Labels labels = {
        {"grpc_type", names.type}, {"grpc_service", names.service}, {"grpc_method", names.method}};
    methods_[i].started = &started.Add(labels);
    methods_[i].seconds = &seconds.Add(labels, LatencyBuckets());
    for (size_t code = 0; code < kGrpcCodeLabels.size(); ++code) {
      prometheus::Labels with_code = labels;
      with_code["grpc_code"] = kGrpcCodeLabels[code];
      methods_[i].handled[code] = &handled.Add(with_code);
    }
  }
}

void ServerMetrics::AddDeviceMetrics(const std::vector<DeviceLabels>& devices) {
  batch_requests_ = &BuildHistogram()
                         .Name(metric_names::kBatchRequests)
                         .Help("Calls in a batch.")
                         .Register(*registry_)
                         .Add({}, PowersOf(2, 1024));
  batch_tokens_ = &BuildHistogram()
                       .Name(metric_names::kBatchTokens)
                       .Help("Tokens in a batch.")
                       .Register(*registry_)
                       .Add({}, PowersOf(4, 1 << 20));

  Family<Counter>& tiles = BuildCounter()
                               .Name(metric_names::kTiles)
                               .Help("Score tiles computed, and tiles skipped because the mask hides them.")
                               .Register(*registry_);
  tiles_computed_ = &tiles.Add({{"result", "computed"}});
  tiles_skipped_ = &tiles.Add({{"result", "skipped"}});

  auto& info = BuildGauge().Name(metric_names::kDeviceInfo).Help("1; its labels name a device.").Register(*registry_);
  Family<Counter>& batches =
      BuildCounter().Name(metric_names::kBatches).Help("Batches run, by kernel family.").Register(*registry_);
  Family<Counter>& flops = BuildCounter()
                               .Name(metric_names::kFlops)
                               .Help("Useful floating-point operations: 4 head_dim for each visible pair and head.")
                               .Register(*registry_);
  Family<Counter>& hbm_bytes = BuildCounter()
                                   .Name(metric_names::kHbmBytes)
                                   .Help("Device memory traffic of the kernels, by the traffic model.")
                                   .Register(*registry_);
  for (const DeviceLabels& device : devices) {
    info.Add({{"device", device.device}, {"name", device.name}, {"kernel", device.kernel}}).Set(1);
    Device& counters = devices_.emplace_back();
    counters.batches = &batches.Add({{"kernel", device.kernel}});
    counters.hbm_bytes = &hbm_bytes.Add({{"device", device.device}, {"kernel", device.kernel}});
    for (size_t dtype = 0; dtype < kDTypeLabels.size(); ++dtype) {
      counters.flops[dtype] =
          &flops.Add({{"device", device.device}, {"kernel", device.kernel}, {"dtype", kDTypeLabels[dtype]}});
    }
  }
}

void ServerMetrics::RpcStarted(RpcMethod method) { methods_[static_cast<size_t>(method)].started->Increment(); }

void ServerMetrics::RpcHandled(RpcMethod method, int code, double seconds) {
  constexpr size_t kUnknown = 2;
  const size_t index = code >= 0 && code < static_cast<int>(kGrpcCodeLabels.size()) ? code : kUnknown;
  Method& metrics = methods_[static_cast<size_t>(method)];
  metrics.handled[index]->Increment();
  metrics.seconds->Observe(seconds);
}

void ServerMetrics::StageTime(Stage stage, double seconds) { stages_[static_cast<size_t>(stage)]->Observe(seconds); }
void ServerMetrics::Copied(int64_t bytes) { copied_->Increment(static_cast<double>(bytes)); }
void ServerMetrics::RegionPayload(RegionMemory memory, int64_t read, int64_t written) {
  region_read_[static_cast<size_t>(memory)]->Increment(static_cast<double>(read));
  region_written_[static_cast<size_t>(memory)]->Increment(static_cast<double>(written));
}
void ServerMetrics::Rejected(RejectReason reason) { rejected_[static_cast<size_t>(reason)]->Increment(); }
void ServerMetrics::Expired(Station where) { expired_[static_cast<size_t>(where)]->Increment(); }
void ServerMetrics::Cancelled(Station where) { cancelled_[static_cast<size_t>(where)]->Increment(); }

void ServerMetrics::CredentialsReloaded(CredentialKind kind, bool taken) {
  (taken ? credentials_taken_ : credentials_refused_)[static_cast<size_t>(kind)]->Increment();
}

void ServerMetrics::Batch(size_t device, size_t dtype, const BatchCounts& counts) {
  Device& metrics = devices_[device];
  metrics.batches->Increment();
  metrics.flops[dtype]->Increment(counts.flops);
  metrics.hbm_bytes->Increment(counts.hbm_bytes);
  tiles_computed_->Increment(static_cast<double>(counts.tiles_computed));
  tiles_skipped_->Increment(static_cast<double>(counts.tiles_skipped));
  batch_requests_->Observe(static_cast<double>(counts.requests));
  batch_tokens_->Observe(static_cast<double>(counts.tokens));
  if (counts.copy_in_seconds > 0) StageTime(Stage::kCopyIn, counts.copy_in_seconds);
  if (counts.compute_seconds > 0) StageTime(Stage::kCompute, counts.compute_seconds);
  if (counts.copy_out_seconds > 0) StageTime(Stage::kCopyOut, counts.copy_out_seconds);
}

}  // namespace tessera
