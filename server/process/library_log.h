// gRPC's and protobuf's own log lines, which may quote what a client sent, as lines of ours.
#ifndef TESSERA_SERVER_PROCESS_LIBRARY_LOG_H_
#define TESSERA_SERVER_PROCESS_LIBRARY_LOG_H_

#include <array>
#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/process/logging.h"

namespace tessera {

// Makes every line of gRPC an event "grpc", and every one of protobuf an event "protobuf", with the fields message (cut
// to kMaxLibraryMessageBytes), file, line and, where some were left out since the last one of its level, suppressed.
// What gRPC logs at all is for GRPC_VERBOSITY to say, errors alone by default. Call it once, before either is used.
void RouteLibraryLogs();
inline constexpr size_t kMaxLibraryMessageBytes = 512;

// Lets so many lines of each level pass in a second, so that clients cannot fill a disk. Thread-safe.
class LineQuota {
 public:
  static constexpr int64_t kLinesPerSecond = 10;

  // Whether a line may pass at `now`: if so, how many did not since the last one that did.
  std::optional<int64_t> Take(LogLevel level, absl::Time now);

 private:
  struct Second {
    absl::Time begin = absl::InfinitePast();
    int64_t passed = 0;
    int64_t suppressed = 0;
  };

  absl::Mutex mutex_;
  std::array<Second, 4> seconds_ ABSL_GUARDED_BY(mutex_);  // by level
};

}  // namespace tessera

#endif  // TESSERA_SERVER_PROCESS_LIBRARY_LOG_H_
