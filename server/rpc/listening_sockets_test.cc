#include "server/rpc/listening_sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::TempDir;

// A connection to `port` of 127.0.0.1 or ::1; -1 where there is none.
int Connect(int family, int port) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int result = -1;
  if (family == AF_INET) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    result = connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to));
  } else {
    sockaddr_in6 to = {};
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(static_cast<uint16_t>(port));
    to.sin6_addr = in6addr_loopback;
    result = connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to));
  }
  if (result == 0) return fd;
  close(fd);
  return -1;
}

bool Connects(int family, int port) {
  const int fd = Connect(family, port);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

bool HasIpv6() {
  const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const bool has = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  if (fd >= 0) close(fd);
  return has;
}

TEST(ListeningSocketsTest, NumericHostTakesAFreePort) {
  const absl::StatusOr<ListeningSockets> sockets = ListeningSockets::Open("127.0.0.1:0");
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  EXPECT_EQ(sockets->fds().size(), 1u);
  EXPECT_GT(sockets->port(), 0);
  EXPECT_TRUE(Connects(AF_INET, sockets->port()));
  EXPECT_FALSE(Connects(AF_INET6, sockets->port()));
}

TEST(ListeningSocketsTest, WildcardTakesBothFamilies) {
  for (const char* address : {"0.0.0.0:0", "[::]:0", ":0"}) {
    const absl::StatusOr<ListeningSockets> sockets = ListeningSockets::Open(address);
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    EXPECT_TRUE(Connects(AF_INET, sockets->port())) << address;
    EXPECT_EQ(Connects(AF_INET6, sockets->port()), HasIpv6()) << address;
  }
}

TEST(ListeningSocketsTest, Ipv6HostStandsInBrackets) {
  if (!HasIpv6()) GTEST_SKIP() << "no IPv6 here";
  const absl::StatusOr<ListeningSockets> sockets = ListeningSockets::Open("[::1]:0");
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  EXPECT_TRUE(Connects(AF_INET6, sockets->port()));
  EXPECT_FALSE(Connects(AF_INET, sockets->port()));
}

TEST(ListeningSocketsTest, NameTakesAllItsAddressesOnOnePort) {
  const absl::StatusOr<ListeningSockets> sockets = ListeningSockets::Open("localhost:0");
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  for (const int fd : sockets->fds()) {
    sockaddr_storage bound = {};
    socklen_t size = sizeof(bound);
    ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size), 0);
    EXPECT_EQ(ntohs(reinterpret_cast<sockaddr_in&>(bound).sin_port), sockets->port());
  }
  EXPECT_TRUE(Connects(AF_INET, sockets->port()) || Connects(AF_INET6, sockets->port()));
}

TEST(ListeningSocketsTest, AcceptedConnectionsDoNotDelayAndGiveUp) {
  const absl::StatusOr<ListeningSockets> sockets = ListeningSockets::Open("127.0.0.1:0");
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  const int client = Connect(AF_INET, sockets->port());
  ASSERT_GE(client, 0);
  const int accepted = accept4(sockets->fds()[0], nullptr, nullptr, SOCK_CLOEXEC);
  ASSERT_GE(accepted, 0);
  int value = 0;
  socklen_t size = sizeof(value);
  getsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &value, &size);
  EXPECT_NE(value, 0);
  getsockopt(accepted, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &size);
  EXPECT_EQ(value, 20000);
  close(accepted);
  close(client);
}

TEST(ListeningSocketsTest, PortInUseIsUnavailable) {
  const absl::StatusOr<ListeningSockets> first = ListeningSockets::Open("127.0.0.1:0");
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string taken = "127.0.0.1:" + std::to_string(first->port());
  const absl::StatusOr<ListeningSockets> second = ListeningSockets::Open(taken);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(second.status().message().find(taken), std::string::npos) << second.status();
}

TEST(ListeningSocketsTest, ClosedByTheDestructorAlone) {
  int port;
  {
    absl::StatusOr<ListeningSockets> sockets = ListeningSockets::Open("127.0.0.1:0");
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    port = sockets->port();
    const ListeningSockets moved = *std::move(sockets);
    EXPECT_TRUE(Connects(AF_INET, port));
  }
  EXPECT_FALSE(Connects(AF_INET, port));
}

TEST(ListeningSocketsTest, NonsenseIsInvalid) {
  for (const char* address : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:-1", "127.0.0.1:65536",
                              "::1:7171", "[::1:7171", "unix:", "unix-abstract:"}) {
    EXPECT_EQ(ListeningSockets::Open(address).status().code(), absl::StatusCode::kInvalidArgument) << address;
  }
  EXPECT_EQ(ListeningSockets::Open("unix:/" + std::string(200, 'x')).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ListeningSocketsTest, UnixSocketsFileGoesWithTheSocketAndComesAnew) {
  const std::string path = TempDir() + "/tessera_listen_" + std::to_string(getpid());
  struct stat found;
  {
    const absl::StatusOr<ListeningSockets> sockets = ListeningSockets::Open("unix:" + path);
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    EXPECT_EQ(sockets->port(), 0);
    EXPECT_EQ(ListeningSockets::Open("unix:" + path).status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(stat(path.c_str(), &found), 0);
  }
  EXPECT_NE(stat(path.c_str(), &found), 0);

  // Left behind by a server that was killed.
  const int old = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(old, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(old);
  EXPECT_TRUE(ListeningSockets::Open("unix:" + path).ok());
}

TEST(ListeningSocketsTest, FileThatIsNoSocketStays) {
  const std::string path = TempDir() + "/tessera_file_" + std::to_string(getpid());
  FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fclose(file);
  EXPECT_EQ(ListeningSockets::Open("unix:" + path).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(unlink(path.c_str()), 0);
}

}  // namespace
}  // namespace tessera
