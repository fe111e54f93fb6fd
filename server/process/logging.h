// Structured logs: one JSON object a line, on standard error.
//
//   {"time":"2026-01-31T12:00:00.000123Z","level":"info","event":"serving","grpc_port":7171}
//
// An event has a fixed name; what varies goes into fields. Tensor data and callers' metadata are never logged.
#ifndef TESSERA_SERVER_PROCESS_LOGGING_H_
#define TESSERA_SERVER_PROCESS_LOGGING_H_

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace tessera {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

using LogField = std::pair<const char*, nlohmann::json>;

// INVALID_ARGUMENT for a name other than "debug", "info", "warning" or "error".
absl::Status SetLogLevel(absl::string_view name);

// Ask before building fields on a hot path.
bool LogEnabled(LogLevel level);

// Thread-safe. Lines are not mixed; all but those of debug level are flushed at once.
void Log(LogLevel level, const char* event, std::initializer_list<LogField> fields = {});

void FlushLog();

}  // namespace tessera

#endif  // TESSERA_SERVER_PROCESS_LOGGING_H_
