#include "tests/server/connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/base/internal/raw_logging.h"

namespace tessera::testing {

namespace {

// -1 where nobody listens.
int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ABSL_RAW_CHECK(fd >= 0, "no socket");
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

Connection::Connection(int port) : fd_(Connect(port)) { ABSL_RAW_CHECK(fd_ >= 0, "cannot connect"); }

Connection::Connection(Connection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Connection::~Connection() {
  if (fd_ >= 0) close(fd_);
}

bool Connection::Possible(int port) {
  const int fd = Connect(port);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

void Connection::Send(const std::string& bytes) const {
  const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  ABSL_RAW_CHECK(sent == static_cast<ssize_t>(bytes.size()), "cannot send");
}

bool Connection::ClosedAtOnce() const {
  char byte;
  return recv(fd_, &byte, 1, 0) <= 0;
}

}  // namespace tessera::testing
