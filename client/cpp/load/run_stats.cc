#include "client/cpp/load/run_stats.h"

namespace tessera::load {

void GroupStats::Merge(const GroupStats& other) {
  ok += other.ok;
  failed += other.failed;
  dropped += other.dropped;
  for (const auto& [code, count] : other.errors) errors[code] += count;
  latency.Merge(other.latency);
  send_lag.Merge(other.send_lag);
  receive.Merge(other.receive);
  queue.Merge(other.queue);
  run.Merge(other.run);
  elsewhere.Merge(other.elsewhere);
  batch_requests.Merge(other.batch_requests);
  requests_per_second += other.requests_per_second;
  upload_bytes_per_second += other.upload_bytes_per_second;
  download_bytes_per_second += other.download_bytes_per_second;
  flops_per_second += other.flops_per_second;
}

}  // namespace tessera::load
