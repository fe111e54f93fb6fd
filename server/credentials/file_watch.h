// Files whose contents are taken anew when they change.
#ifndef TESSERA_SERVER_CREDENTIALS_FILE_WATCH_H_
#define TESSERA_SERVER_CREDENTIALS_FILE_WATCH_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tessera {

// Contents are compared, not times: so it does not matter whether a file is written over, replaced, or reached by
// another symbolic link, as Kubernetes does it. Files that belong together are taken together. Not thread-safe.
class FileWatch {
 public:
  // Is given the contents, in the order of the paths. What it refuses leaves whatever it took last in force.
  using TakeFn = std::function<absl::Status(std::vector<std::string>)>;

  FileWatch(std::vector<std::string> paths, TakeFn take);

  // The first look: whatever is wrong is an error.
  absl::Status Load();

  // Looks again. Nothing where nothing has changed, OK where new contents were taken, an error where they were not.
  //
  // Writers of several files, and of long ones, can be seen half-way. So contents that cannot be read or are refused
  // are an error only if the next look finds the same; and one that has been told is not told again. They are tried
  // with each look all the same, for time may make them good.
  std::optional<absl::Status> Look();

 private:
  // What a look found.
  struct Found {
    absl::Status readable;
    std::vector<std::string> contents;

    bool operator==(const Found&) const = default;
  };

  Found Read() const;
  absl::Status Take(const Found& found) const;

  const std::vector<std::string> paths_;
  const TakeFn take_;
  Found taken_;
  std::optional<Found> refused_;  // by the last look
  bool told_ = false;             // of refused_
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CREDENTIALS_FILE_WATCH_H_
