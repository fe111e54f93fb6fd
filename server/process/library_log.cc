#include "server/process/library_log.h"

#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "grpcpp/version_info.h"

// From 1.65 on gRPC logs by Abseil, and its own function for that does nothing, or is gone.
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65
#define TESSERA_GRPC_LOGS_BY_ABSL 0
#include "grpc/support/log.h"
#else
#define TESSERA_GRPC_LOGS_BY_ABSL 1
#endif

// So does protobuf, whose header of its own is gone since.
#if __has_include("google/protobuf/stubs/logging.h")
#define TESSERA_PROTOBUF_LOGS_BY_ABSL 0
#include "google/protobuf/stubs/logging.h"
#else
#define TESSERA_PROTOBUF_LOGS_BY_ABSL 1
#endif

#if TESSERA_GRPC_LOGS_BY_ABSL || TESSERA_PROTOBUF_LOGS_BY_ABSL
#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#include "absl/log/initialize.h"
#include "absl/log/log_entry.h"
#include "absl/log/log_sink.h"
#include "absl/log/log_sink_registry.h"
#endif

namespace tessera {
namespace {

void LogLine(const char* library, LogLevel level, absl::string_view message, absl::string_view file, int line) {
  static auto* const kQuota = new LineQuota;
  if (!LogEnabled(level)) return;
  const std::optional<int64_t> suppressed = kQuota->Take(level, absl::Now());
  if (!suppressed.has_value()) return;
  const std::string text(message.substr(0, kMaxLibraryMessageBytes));
  const std::string where(file.substr(file.rfind('/') + 1));
  if (*suppressed == 0) {
    Log(level, library, {{"message", text}, {"file", where}, {"line", line}});
  } else {
    Log(level, library, {{"message", text}, {"file", where}, {"line", line}, {"suppressed", *suppressed}});
  }
}

#if TESSERA_GRPC_LOGS_BY_ABSL || TESSERA_PROTOBUF_LOGS_BY_ABSL

class Sink final : public absl::LogSink {
 public:
  void Send(const absl::LogEntry& entry) override {
    const bool protobuf = entry.source_filename().find("google/protobuf/") != absl::string_view::npos;
    LogLine(protobuf ? "protobuf" : "grpc", LevelOf(entry.log_severity()), entry.text_message(),
            entry.source_filename(), entry.source_line());
  }

 private:
  static LogLevel LevelOf(absl::LogSeverity severity) {
    switch (severity) {
      case absl::LogSeverity::kInfo:
        return LogLevel::kInfo;
      case absl::LogSeverity::kWarning:
        return LogLevel::kWarning;
      default:
        return LogLevel::kError;
    }
  }
};

#endif

#if !TESSERA_GRPC_LOGS_BY_ABSL

void OnGrpcLine(gpr_log_func_args* line) {
  const LogLevel level = line->severity == GPR_LOG_SEVERITY_DEBUG  ? LogLevel::kDebug
                         : line->severity == GPR_LOG_SEVERITY_INFO ? LogLevel::kInfo
                                                                   : LogLevel::kError;
  LogLine("grpc", level, line->message, line->file, line->line);
}

#endif

#if !TESSERA_PROTOBUF_LOGS_BY_ABSL

void OnProtobufLine(google::protobuf::LogLevel severity, const char* file, int line, const std::string& message) {
  const LogLevel level = severity == google::protobuf::LOGLEVEL_INFO      ? LogLevel::kInfo
                         : severity == google::protobuf::LOGLEVEL_WARNING ? LogLevel::kWarning
                                                                          : LogLevel::kError;
  LogLine("protobuf", level, message, file, line);
}

#endif

}  // namespace

void RouteLibraryLogs() {
#if TESSERA_GRPC_LOGS_BY_ABSL || TESSERA_PROTOBUF_LOGS_BY_ABSL
  absl::AddLogSink(new Sink);
  absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfinity);
  absl::InitializeLog();
#endif
#if !TESSERA_GRPC_LOGS_BY_ABSL
  gpr_set_log_function(&OnGrpcLine);
#endif
#if !TESSERA_PROTOBUF_LOGS_BY_ABSL
  google::protobuf::SetLogHandler(&OnProtobufLine);
#endif
}

std::optional<int64_t> LineQuota::Take(LogLevel level, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  Second& second = seconds_[static_cast<size_t>(level)];
  // Also where the system's time was set back.
  if (now >= second.begin + absl::Seconds(1) || now < second.begin) {
    second.begin = now;
    second.passed = 0;
  }
  if (second.passed >= kLinesPerSecond) {
    ++second.suppressed;
    return std::nullopt;
  }
  ++second.passed;
  return std::exchange(second.suppressed, 0);
}

}  // namespace tessera
