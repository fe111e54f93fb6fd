#include "tests/server/connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/base/internal/raw_logging.h"

namespace tessera::testing {

Connection::Connection(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ABSL_RAW_CHECK(fd_ >= 0 && connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0, "cannot connect");
}

Connection::Connection(Connection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Connection::~Connection() {
  if (fd_ >= 0) close(fd_);
}

bool Connection::ClosedAtOnce() const {
  char byte;
  return recv(fd_, &byte, 1, 0) <= 0;
}

}  // namespace tessera::testing
