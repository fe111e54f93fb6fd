// Looks at files now and then.
#ifndef TESSERA_SERVER_CREDENTIALS_FILE_WATCHER_H_
#define TESSERA_SERVER_CREDENTIALS_FILE_WATCHER_H_

#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "server/credentials/file_watch.h"

namespace tessera {

// One thread, from the constructor to the destructor.
class FileWatcher {
 public:
  struct Watched {
    FileWatch files;
    // Told, on the thread, of each change: OK where it was taken.
    std::function<void(const absl::Status&)> on_change;
  };

  // REQUIRES: all have been loaded.
  FileWatcher(std::vector<Watched> watched, absl::Duration period);
  FileWatcher(const FileWatcher&) = delete;
  FileWatcher& operator=(const FileWatcher&) = delete;
  ~FileWatcher();

 private:
  void Run();

  std::vector<Watched> watched_;
  const absl::Duration period_;
  absl::Notification stop_;
  std::thread thread_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CREDENTIALS_FILE_WATCHER_H_
