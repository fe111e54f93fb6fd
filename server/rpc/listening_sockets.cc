#include "server/rpc/listening_sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace tessera {
namespace {

// gRPC's default for servers: a peer that acknowledges nothing for so long is gone.
constexpr int kUserTimeoutMillis = 20000;

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;
};

struct HostAndPort {
  std::string host;  // empty: any
  int port;
};

absl::StatusOr<HostAndPort> Split(absl::string_view address) {
  const size_t colon = address.rfind(':');
  absl::string_view host = address.substr(0, colon == absl::string_view::npos ? 0 : colon);
  int port = 0;
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("listen: ", address, " is not host:port with a port of 0 to 65535"));
  }
  if (absl::ConsumePrefix(&host, "[")) {
    if (absl::ConsumeSuffix(&host, "]")) return HostAndPort{std::string(host), port};
  } else if (host.find(':') == absl::string_view::npos) {
    return HostAndPort{std::string(host), port};
  }
  return absl::InvalidArgumentError(absl::StrCat("listen: ", address, ": an IPv6 host stands in brackets"));
}

// Of IPv4 and IPv6, the port lies at the same place.
int PortOf(int fd) {
  SocketAddress bound;
  bound.size = sizeof(bound.storage);
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound.storage), &bound.size);
  return ntohs(reinterpret_cast<const sockaddr_in&>(bound.storage).sin_port);
}

void SetPort(int port, SocketAddress* address) {
  reinterpret_cast<sockaddr_in&>(address->storage).sin_port = htons(static_cast<uint16_t>(port));
}

SocketAddress Any(int family, int port) {
  SocketAddress any;
  any.storage.ss_family = static_cast<sa_family_t>(family);
  any.size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);  // all zero: INADDR_ANY, in6addr_any
  SetPort(port, &any);
  return any;
}

bool IsAny(const sockaddr& address) {
  if (address.sa_family == AF_INET6) {
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  }
  return address.sa_family == AF_INET &&
         reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr == htonl(INADDR_ANY);
}

absl::StatusOr<std::vector<SocketAddress>> Resolve(const HostAndPort& at) {
  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(at.host.empty() ? nullptr : at.host.c_str(), absl::StrCat(at.port).c_str(), &hints, &found);
  if (error != 0) return absl::UnavailableError(absl::StrCat("listen: ", at.host, ": ", gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    // One socket of IPv6 takes both families.
    if (IsAny(*one->ai_addr)) return std::vector<SocketAddress>{Any(AF_INET6, at.port)};
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.size = one->ai_addrlen;
  }
  return addresses;
}

absl::StatusOr<SocketAddress> UnixAddress(absl::string_view name, bool abstract) {
  SocketAddress result;
  auto* address = reinterpret_cast<sockaddr_un*>(&result.storage);
  address->sun_family = AF_UNIX;
  // An abstract name begins with a zero byte, a path ends with one.
  if (name.empty() || name.size() + 1 > sizeof(address->sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("listen: ", name, " has ", name.size(), " bytes, a Unix socket's ",
                                                   "name has 1 to ", sizeof(address->sun_path) - 1));
  }
  std::memcpy(address->sun_path + (abstract ? 1 : 0), name.data(), name.size());
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + 1);
  return result;
}

// What a server that was killed has left behind would be in the way. Nothing is removed but a socket that nobody
// listens on.
void RemoveStaleSocket(const SocketAddress& address, const std::string& path) {
  struct stat found;
  if (lstat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const int connected = connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size);
  if (connected != 0 && errno == ECONNREFUSED) unlink(path.c_str());
  close(fd);
}

// A bound and listening socket, or -1 with errno.
int Listen(const SocketAddress& address) {
  const int family = address.storage.ss_family;
  const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int on = 1;
  const int off = 0;
  if (family != AF_UNIX) {
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMillis, sizeof(kUserTimeoutMillis));
  }
  if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  // The system cuts the backlog to its own limit.
  constexpr int kBacklog = 65535;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0 && listen(fd, kBacklog) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

absl::Status CannotListen(const std::string& address, int error) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<ListeningSockets> ListeningSockets::Open(const std::string& address) {
  ListeningSockets sockets;
  absl::string_view name = address;
  const bool abstract = absl::ConsumePrefix(&name, "unix-abstract:");
  if (abstract || absl::ConsumePrefix(&name, "unix:")) {
    if (!abstract) absl::ConsumePrefix(&name, "//");
    const absl::StatusOr<SocketAddress> at = UnixAddress(name, abstract);
    if (!at.ok()) return at.status();
    if (!abstract) RemoveStaleSocket(*at, std::string(name));
    const int fd = Listen(*at);
    if (fd < 0) return CannotListen(address, errno);
    sockets.fds_.push_back(fd);
    if (!abstract) sockets.path_ = std::string(name);
    return sockets;
  }

  const absl::StatusOr<HostAndPort> at = Split(name);
  if (!at.ok()) return at.status();
  absl::StatusOr<std::vector<SocketAddress>> addresses = Resolve(*at);
  if (!addresses.ok()) return addresses.status();
  sockets.port_ = at->port;
  int error = 0;
  for (SocketAddress& one : *addresses) {
    SetPort(sockets.port_, &one);
    int fd = Listen(one);
    const auto unknown_here = [] { return errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL; };
    const bool any = IsAny(reinterpret_cast<const sockaddr&>(one.storage));
    if (fd < 0 && any && unknown_here()) fd = Listen(Any(AF_INET, sockets.port_));
    if (fd < 0) {
      error = errno;
      // A name may stand for addresses that this machine does not have.
      if (unknown_here()) continue;
      return CannotListen(address, error);
    }
    sockets.fds_.push_back(fd);
    if (sockets.port_ == 0) sockets.port_ = PortOf(fd);
  }
  if (sockets.fds_.empty()) return CannotListen(address, error);
  return sockets;
}

ListeningSockets::ListeningSockets(ListeningSockets&& other) noexcept
    : fds_(std::exchange(other.fds_, {})), port_(other.port_), path_(std::exchange(other.path_, {})) {}

ListeningSockets& ListeningSockets::operator=(ListeningSockets&& other) noexcept {
  std::swap(fds_, other.fds_);
  std::swap(port_, other.port_);
  std::swap(path_, other.path_);
  return *this;
}

ListeningSockets::~ListeningSockets() {
  if (!path_.empty()) unlink(path_.c_str());
  for (const int fd : fds_) close(fd);
}

}  // namespace tessera
