#include "client/cpp/load/run_stats.h"

namespace tessera::load {

namespace {

void ScaleRates(double factor, GroupStats* group) {
  group->requests_per_second *= factor;
  group->upload_bytes_per_second *= factor;
  group->download_bytes_per_second *= factor;
  group->flops_per_second *= factor;
}

// `share` is the part that `round`'s window makes of both.
void AppendGroup(GroupStats round, double share, GroupStats* group) {
  ScaleRates(1 - share, group);
  ScaleRates(share, &round);
  group->Merge(round);
}

}  // namespace

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

void RunStats::AppendRound(const RunStats& round) {
  if (shapes.empty()) {
    *this = round;
    return;
  }
  const absl::Duration both = window + round.window;
  const double share = both > absl::ZeroDuration() ? absl::FDivDuration(round.window, both) : 0;
  AppendGroup(round.total, share, &total);
  for (size_t i = 0; i < shapes.size(); ++i) AppendGroup(round.shapes[i], share, &shapes[i]);
  window = both;
}

}  // namespace tessera::load
