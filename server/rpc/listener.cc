#include "server/rpc/listener.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "server/clock/clock.h"

namespace tessera {
namespace {

int AcceptOne(int socket) { return accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); }

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

// Of the connection that was to be accepted, not of accepting: the next one may be had. accept(2) passes on errors of
// the network.
bool ConcernsOneConnection(int error) {
  switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPERM:
    case EPROTO:
    case ENOPROTOOPT:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
    case EOPNOTSUPP:
      return true;
    default:
      return false;
  }
}

}  // namespace

Listener::Listener(ListeningSockets sockets, size_t max_connections, RpcObserver* observer)
    : sockets_(std::move(sockets)), observer_(observer), connections_(max_connections) {}

void Listener::Start(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor) {
  acceptor_ = std::move(acceptor);
  spare_ = OpenSpare();
  wake_ = eventfd(0, EFD_CLOEXEC);
  ABSL_RAW_CHECK(wake_ >= 0, "eventfd");
  thread_ = std::thread([this] { Run(); });
}

void Listener::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  ABSL_RAW_CHECK(write(wake_, &one, sizeof(one)) == sizeof(one), "eventfd");
  thread_.join();
  close(wake_);
  if (spare_ >= 0) close(spare_);
  const ListeningSockets closed = std::move(sockets_);
}

void Listener::Run() {
  std::vector<pollfd> ready = {{wake_, POLLIN, 0}};
  for (const int socket : sockets_.fds()) ready.push_back({socket, POLLIN, 0});
  bool pause = false;
  while (true) {
    const nfds_t watched = pause ? 1 : ready.size();
    poll(ready.data(), watched, pause ? static_cast<int>(absl::ToInt64Milliseconds(kPause)) : -1);
    if (ready[0].revents != 0) return;
    pause = false;
    for (size_t i = 1; i < watched; ++i) {
      if (ready[i].revents != 0 && !AcceptAll(ready[i].fd)) pause = true;
    }
  }
}

bool Listener::AcceptAll(int socket) {
  if (spare_ < 0) spare_ = OpenSpare();
  for (int i = 0; i < kBurst; ++i) {
    const int fd = AcceptOne(socket);
    if (fd >= 0) {
      Take(socket, fd);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return true;
    } else if (errno == EMFILE || errno == ENFILE) {
      if (!Shed(socket)) return false;
    } else if (!ConcernsOneConnection(errno)) {
      return false;
    }
  }
  return true;
}

bool Listener::Shed(int socket) {
  if (spare_ < 0) return false;
  close(spare_);
  const int fd = AcceptOne(socket);
  // Another thread may have been faster to take what was given up.
  const bool out_of_files = fd < 0 && (errno == EMFILE || errno == ENFILE);
  if (fd >= 0) {
    observer_->OnRejected(RejectReason::kFileDescriptors);
    close(fd);
  }
  spare_ = OpenSpare();
  return !out_of_files;
}

void Listener::Take(int socket, int fd) {
  if (!connections_.HasRoom(Clock::Real()->Now())) {
    observer_->OnRejected(RejectReason::kConnections);
    close(fd);
    return;
  }
  connections_.Add(fd);
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.listener_fd = socket;
  connection.fd = fd;
  acceptor_->HandleNewConnection(&connection);
}

}  // namespace tessera
