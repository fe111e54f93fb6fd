// Runs a decode load as configured: the server's sequences, the echo of their bytes beside them, and the check of
// answers.
#ifndef TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_RUN_H_
#define TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_RUN_H_

#include <atomic>

#include "absl/status/statusor.h"
#include "client/cpp/load/decode/decode_report.h"
#include "client/cpp/load/load_config.h"

namespace tessera::load {

// As RunLoadTest. REQUIRES: CompleteConfig accepted the config, and it has a decode shape.
absl::StatusOr<DecodeReport> RunDecode(const LoadConfig& config, const std::atomic<bool>* interrupted);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_RUN_H_
