// The server's counters and histograms, created once with every label value and held by reference.
//
// Updating one costs an atomic add or a short lock of that metric's own; no name or label is looked up.
#ifndef TESSERA_SERVER_METRICS_SERVER_METRICS_H_
#define TESSERA_SERVER_METRICS_SERVER_METRICS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "prometheus/counter.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/metrics/labels.h"

namespace tessera {

struct BuildLabels {
  std::string version;
  std::string revision;
  std::string backend;
};

struct DeviceLabels {
  std::string device;  // ordinal
  std::string name;
  std::string kernel;
};

// What one batch did, as the device reports it.
struct BatchCounts {
  int64_t requests = 0;
  int64_t tokens = 0;
  double copy_in_seconds = 0;  // 0: the device has no such stage
  double compute_seconds = 0;
  double copy_out_seconds = 0;
  double flops = 0;
  double hbm_bytes = 0;
  int64_t tiles_computed = 0;
  int64_t tiles_skipped = 0;
};

// Thread-safe.
class ServerMetrics {
 public:
  ServerMetrics(const BuildLabels& build, const std::vector<DeviceLabels>& devices);
  ServerMetrics(const ServerMetrics&) = delete;
  ServerMetrics& operator=(const ServerMetrics&) = delete;

  void RpcStarted(RpcMethod method);
  // `code` is a google.rpc.Code value; others count as Unknown.
  void RpcHandled(RpcMethod method, int code, double seconds);

  void StageTime(Stage stage, double seconds);
  void Copied(int64_t bytes);
  void RegionPayload(RegionMemory memory, int64_t read, int64_t written);
  void Rejected(RejectReason reason);
  void Expired(Station where);
  void Cancelled(Station where);
  // Files that changed: what they hold was taken, or refused.
  void CredentialsReloaded(CredentialKind kind, bool taken);
  // `device` indexes the constructor's list; `dtype` indexes kDTypeLabels.
  void Batch(size_t device, size_t dtype, const BatchCounts& counts);

  const std::shared_ptr<prometheus::Registry>& registry() const { return registry_; }

 private:
  struct Method {
    prometheus::Counter* started;
    std::array<prometheus::Counter*, kGrpcCodeLabels.size()> handled;
    prometheus::Histogram* seconds;
  };
  struct Device {
    prometheus::Counter* batches;
    std::array<prometheus::Counter*, kDTypeLabels.size()> flops;
    prometheus::Counter* hbm_bytes;
  };

  void AddRpcMetrics();
  void AddDeviceMetrics(const std::vector<DeviceLabels>& devices);

  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  std::array<Method, kRpcMethodLabels.size()> methods_{};
  std::array<prometheus::Histogram*, kStageLabels.size()> stages_{};
  std::array<prometheus::Counter*, kRejectReasonLabels.size()> rejected_{};
  std::array<prometheus::Counter*, kStationLabels.size()> expired_{};
  std::array<prometheus::Counter*, kStationLabels.size()> cancelled_{};
  std::array<prometheus::Counter*, kCredentialKindLabels.size()> credentials_taken_{};
  std::array<prometheus::Counter*, kCredentialKindLabels.size()> credentials_refused_{};
  prometheus::Counter* copied_ = nullptr;
  std::array<prometheus::Counter*, kRegionMemoryLabels.size()> region_read_{};
  std::array<prometheus::Counter*, kRegionMemoryLabels.size()> region_written_{};
  prometheus::Histogram* batch_requests_ = nullptr;
  prometheus::Histogram* batch_tokens_ = nullptr;
  prometheus::Counter* tiles_computed_ = nullptr;
  prometheus::Counter* tiles_skipped_ = nullptr;
  std::vector<Device> devices_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_METRICS_SERVER_METRICS_H_
