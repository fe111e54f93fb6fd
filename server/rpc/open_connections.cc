#include "server/rpc/open_connections.h"

#include <sys/socket.h>

#include <optional>

namespace tessera {
namespace {

// The system's name for a socket, never used again; nothing where `fd` is not one.
std::optional<uint64_t> CookieOf(int fd) {
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) != 0) return std::nullopt;
  return cookie;
}

}  // namespace

bool OpenConnections::HasRoom(absl::Time now) {
  if (cookies_.size() < most_) return true;
  if (now < swept_ + kSweepPeriod) return false;
  swept_ = now;
  absl::erase_if(cookies_, [](const auto& connection) { return CookieOf(connection.first) != connection.second; });
  return cookies_.size() < most_;
}

void OpenConnections::Add(int fd) { cookies_[fd] = CookieOf(fd).value_or(0); }

}  // namespace tessera
