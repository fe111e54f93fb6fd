// Everything that the text, JSON and HTML reports say, gathered once.
#ifndef TESSERA_CLIENT_CPP_LOAD_REPORT_H_
#define TESSERA_CLIENT_CPP_LOAD_REPORT_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/load/answer_check.h"
#include "client/cpp/load/run_stats.h"

namespace tessera::load {

// The load against one target.
struct TargetReport {
  std::string name;  // "server", "echo"
  RunStats stats;    // of a ramp: its knee's, or its first step's where there is no knee
  std::vector<TimelinePoint> timeline;
  std::optional<RampResult> ramp;
};

struct Report {
  absl::Time started;
  std::string load;    // for people, such as "closed loop, 64 callers"
  std::string server;  // for people: version, backend, devices; empty where no server was asked
  std::vector<std::pair<std::string, std::string>> configuration;
  std::optional<absl::Duration> slo_p99;  // of a ramp
  std::vector<TargetReport> targets;      // at least one; the server, if any, is first
  std::optional<CheckResult> check;
  absl::Status ended;  // not OK: the run was given up, and only what came before is in the report
};

// Server over echo, where both were loaded.
struct EchoRatio {
  double requests_per_second = 0;  // of a ramp: at the knees
  double p50 = 0;
  double p99 = 0;
};
std::optional<EchoRatio> CompareWithEcho(const Report& report);

// A table for the terminal.
std::string RenderText(const Report& report);

// As docs/load_testing.md describes it.
std::string RenderJson(const Report& report);

// A page that needs nothing but itself.
std::string RenderHtml(const Report& report);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_REPORT_H_
