#include "server/credentials/file_watch.h"

#include <utility>

#include "absl/status/statusor.h"
#include "server/credentials/file_contents.h"

namespace tessera {

FileWatch::FileWatch(std::vector<std::string> paths, TakeFn take) : paths_(std::move(paths)), take_(std::move(take)) {}

absl::Status FileWatch::Load() {
  Found found = Read();
  absl::Status status = Take(found);
  if (status.ok()) taken_ = std::move(found);
  return status;
}

std::optional<absl::Status> FileWatch::Look() {
  Found found = Read();
  if (found == taken_) {
    refused_.reset();
    return std::nullopt;
  }
  absl::Status status = Take(found);
  if (status.ok()) {
    taken_ = std::move(found);
    refused_.reset();
    return status;
  }
  const bool again = refused_ == found;
  if (!again) {
    refused_ = std::move(found);
    told_ = false;
  }
  if (!again || told_) return std::nullopt;
  told_ = true;
  return status;
}

FileWatch::Found FileWatch::Read() const {
  Found found;
  for (const std::string& path : paths_) {
    absl::StatusOr<std::string> contents = ReadCredentialFile(path);
    if (!contents.ok()) return Found{contents.status(), {}};
    found.contents.push_back(*std::move(contents));
  }
  return found;
}

absl::Status FileWatch::Take(const Found& found) const {
  return found.readable.ok() ? take_(found.contents) : found.readable;
}

}  // namespace tessera
