// The line that says each second how a run is doing.
#ifndef TESSERA_CLIENT_CPP_LOAD_PROGRESS_H_
#define TESSERA_CLIENT_CPP_LOAD_PROGRESS_H_

#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "client/cpp/load/dispatcher.h"
#include "client/cpp/load/recorder.h"

namespace tessera::load {

// "server    12 s    3412/s  in flight   64  p50  1.23 ms  p99  4.56 ms  errors 0"
std::string FormatProgress(const std::string& target, absl::Duration elapsed, absl::Duration since_last,
                           const Progress& progress, int64_t in_flight);

// Prints to stderr from a thread of its own as long as it lives. The dispatcher must outlive it.
class ProgressLine {
 public:
  ProgressLine(std::string target, const Dispatcher* dispatcher);
  ~ProgressLine();

 private:
  void Run();

  const std::string target_;
  const Dispatcher* const dispatcher_;
  absl::Notification done_;
  std::thread thread_;
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_PROGRESS_H_
