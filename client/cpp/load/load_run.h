// Runs a load test as configured: the server, the echo beside it, and the check of answers.
#ifndef TESSERA_CLIENT_CPP_LOAD_LOAD_RUN_H_
#define TESSERA_CLIENT_CPP_LOAD_LOAD_RUN_H_

#include <atomic>

#include "absl/status/statusor.h"
#include "client/cpp/load/load_config.h"
#include "client/cpp/load/report.h"

namespace tessera::load {

// Setting `interrupted`, which must outlive the call, ends the run early; what was measured until then is reported.
// The status is that of a server that cannot be reached, or that answers nothing but failures; where it has answered
// before, that is reported, and Report::ended says why there is no more.
// REQUIRES: CompleteConfig accepted the config.
absl::StatusOr<Report> RunLoadTest(const LoadConfig& config, const std::atomic<bool>* interrupted);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_LOAD_RUN_H_
