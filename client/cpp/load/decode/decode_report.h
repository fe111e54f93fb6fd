// Everything that the reports of a decode load say.
#ifndef TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_REPORT_H_
#define TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_REPORT_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/load/answer_check.h"
#include "client/cpp/load/decode/decode_shape.h"
#include "client/cpp/load/decode/decode_stats.h"

namespace tessera::load {

struct DecodeTargetReport {
  std::string name;  // "server", "echo"
  DecodeStats stats;
};

struct DecodeReport {
  absl::Time started;
  std::string load;    // for people
  std::string server;  // for people
  std::vector<std::pair<std::string, std::string>> configuration;
  DecodeShape shape;                        // with what the profile decided
  double step_up_bytes = 0;                 // tensors of one decode step of one sequence in one layer
  double step_down_bytes = 0;               // of its answer
  std::vector<DecodeTargetReport> targets;  // the server first
  std::optional<CheckResult> check;
  absl::Status ended;  // not OK: the run was given up, and only what came before is in the report
};

// Server over echo, where both were loaded.
struct DecodeEchoRatio {
  double tokens_per_second = 0;
  double step_p50 = 0;
  double token_time_p50 = 0;
  // The median step against the echo's median and the server's own median run: 1 is a server that adds nothing to both.
  double step_p50_over_echo_and_run = 0;
};
std::optional<DecodeEchoRatio> CompareWithEcho(const DecodeReport& report);

// A table for the terminal.
std::string RenderDecodeText(const DecodeReport& report);

// As docs/load_testing.md describes it.
std::string RenderDecodeJson(const DecodeReport& report);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_REPORT_H_
