#include "server/process/logging.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "spdlog/logger.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace tessera {
namespace {

spdlog::logger& Logger() {
  static spdlog::logger* const kLogger = [] {
    auto* logger = new spdlog::logger("tessera", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    logger->set_pattern("%v");
    logger->flush_on(spdlog::level::info);
    return logger;
  }();
  return *kLogger;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

const char* Name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

}  // namespace

absl::Status SetLogLevel(absl::string_view name) {
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    if (name != Name(level)) continue;
    Logger().set_level(ToSpdlog(level));
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("log_level: ", name, " is not one of debug, info, warning, error"));
}

bool LogEnabled(LogLevel level) { return Logger().should_log(ToSpdlog(level)); }

void Log(LogLevel level, const char* event, std::initializer_list<LogField> fields) {
  if (!LogEnabled(level)) return;
  nlohmann::ordered_json line;
  line["time"] = absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(), absl::UTCTimeZone());
  line["level"] = Name(level);
  line["event"] = event;
  for (const LogField& field : fields) line[field.first] = field.second;
  // Bytes that are not UTF-8 are replaced: logging must not fail.
  Logger().log(ToSpdlog(level), "{}", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void FlushLog() { Logger().flush(); }

}  // namespace tessera
