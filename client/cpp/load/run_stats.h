// What a run measured, as plain data for the reports.
#ifndef TESSERA_CLIENT_CPP_LOAD_RUN_STATS_H_
#define TESSERA_CLIENT_CPP_LOAD_RUN_STATS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/load/histogram.h"

namespace tessera::load {

// Requests of one shape, or of all. Two views of the same run:
// counts and histograms cover the requests *due* within the measured window, however late they ended;
// rates cover the OK answers that *arrived* within it, so that an overloaded target's backlog does not count as served.
// Histograms are in nanoseconds except batch_requests. Those of latency and server stages hold OK answers only.
struct GroupStats {
  std::string name;
  int64_t ok = 0;
  int64_t failed = 0;
  int64_t dropped = 0;                         // never sent: the client's in-flight bound was reached
  std::map<absl::StatusCode, int64_t> errors;  // of the failed

  Histogram latency;   // due time to answer
  Histogram send_lag;  // due time to send: the client's own lateness, included in latency
  Histogram receive;
  Histogram queue;
  Histogram run;
  Histogram elsewhere;  // send to answer, less the server's receive, queue and run: client, wire, answer
  Histogram batch_requests;

  double requests_per_second = 0;
  double upload_bytes_per_second = 0;    // tensors of answered requests
  double download_bytes_per_second = 0;  // tensors of answers
  double flops_per_second = 0;           // useful ones, of answers that came with the server's timing

  int64_t due() const { return ok + failed + dropped; }
  // Of the requests due, those that brought no answer.
  double error_fraction() const {
    return due() == 0 ? 0 : static_cast<double>(failed + dropped) / static_cast<double>(due());
  }

  // Adds another shape's requests of the same window.
  void Merge(const GroupStats& other);
};

struct RunStats {
  absl::Duration window;  // measured time
  GroupStats total;
  std::vector<GroupStats> shapes;  // as in the workload

  // Adds a later round of the same load: counts add up, rates become those over both windows.
  void AppendRound(const RunStats& round);
};

// One interval of a run, by the time the answers arrived. Covers warm-up too.
struct TimelinePoint {
  absl::Duration begin;  // from the start of the run
  absl::Duration length;
  int64_t ok = 0;
  int64_t failed = 0;
  int64_t dropped = 0;
  int64_t p50_ns = 0;
  int64_t p99_ns = 0;
  int64_t max_ns = 0;
  bool warm_up = false;  // begins before measuring does
};

// One step of a ramp.
struct RampStep {
  double offered = 0;  // requests a second
  RunStats stats;
  absl::Duration begin;  // from the start of the run
  bool met_slo = false;
  std::string broken;  // what broke the SLO; empty where it was met
};

// Steps in the order run. The knee is the highest rate that met the SLO with no lower one breaking it.
struct RampResult {
  std::vector<RampStep> steps;
  int knee = -1;           // index into steps; -1 where even the lowest rate broke the SLO
  bool bracketed = false;  // a rate above the knee broke the SLO; otherwise the ramp ended first
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_RUN_STATS_H_
