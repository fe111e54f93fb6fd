// A load test as asked for.
#ifndef TESSERA_CLIENT_CPP_LOAD_LOAD_CONFIG_H_
#define TESSERA_CLIENT_CPP_LOAD_LOAD_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/load/call_shape.h"
#include "client/cpp/load/decode/decode_shape.h"
#include "client/cpp/load/region_memory.h"
#include "client/cpp/load/runner.h"
#include "client/cpp/load/tessera_target.h"

namespace tessera::load {

enum class LoadMode { kClosed, kPoisson, kConstant, kRamp };

struct LoadConfig {
  TesseraOptions server;  // address empty: no server, only the echo
  std::vector<CallShape> shapes;
  std::optional<DecodeShape> decode;       // sequences that decode, in place of calls of `shapes`
  RegionKind regions = RegionKind::kNone;  // where tensors lie that do not travel
  LoadMode mode = LoadMode::kClosed;
  int callers = 64;   // closed; of a decode load: groups of sequences at a time
  double rate = 100;  // poisson, constant; of a decode load: groups that begin, a second
  RunLength length;   // of a ramp: each step's
  int64_t max_in_flight = 4096;
  RampPlan ramp;  // its step, max_in_flight and seed are filled in by CompleteConfig
  int payloads = 4;
  int64_t verify = 0;
  uint64_t seed = 1;
  int64_t give_up_after = 1000;

  int rounds = 1;

  bool echo = false;
  std::string echo_address;  // empty: a server of this process

  bool progress = true;
  std::string json_path;
  std::string html_path;
};

// Checks what flags cannot check one by one, and fills in what follows from other fields: the time that an open loop
// of a given number of requests needs, and the ramp's step. INVALID_ARGUMENT naming the flag.
absl::Status CompleteConfig(LoadConfig* config);

// How long an open loop has arrivals: as long as it lasts, or as its requests need.
absl::Duration OfferedTime(const LoadConfig& config);

// The part of the load that one round is. Each has a warm-up and draws of its own.
LoadConfig RoundOf(const LoadConfig& config, int round);

// "closed loop, 64 callers, 10s measured after 2s of warm-up".
std::string DescribeLoad(const LoadConfig& config);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_LOAD_CONFIG_H_
