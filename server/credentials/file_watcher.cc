#include "server/credentials/file_watcher.h"

#include <optional>
#include <utility>

namespace tessera {

FileWatcher::FileWatcher(std::vector<Watched> watched, absl::Duration period)
    : watched_(std::move(watched)), period_(period), thread_([this] { Run(); }) {}

FileWatcher::~FileWatcher() {
  stop_.Notify();
  thread_.join();
}

void FileWatcher::Run() {
  while (!stop_.WaitForNotificationWithTimeout(period_)) {
    for (Watched& watched : watched_) {
      if (const std::optional<absl::Status> change = watched.files.Look()) watched.on_change(*change);
    }
  }
}

}  // namespace tessera
