#include "server/rpc/open_connections.h"

#include <sys/socket.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace tessera {
namespace {

class OpenConnectionsTest : public ::testing::Test {
 protected:
  static int NewSocket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

  absl::Time now_ = absl::UnixEpoch();
  OpenConnections connections_{2};
};

TEST_F(OpenConnectionsTest, HasRoomForSoManyOpenOnes) {
  const int first = NewSocket();
  const int second = NewSocket();
  EXPECT_TRUE(connections_.HasRoom(now_));
  connections_.Add(first);
  EXPECT_TRUE(connections_.HasRoom(now_));
  connections_.Add(second);
  EXPECT_FALSE(connections_.HasRoom(now_));
  close(first);
  EXPECT_TRUE(connections_.HasRoom(now_ + OpenConnections::kSweepPeriod));
  EXPECT_EQ(connections_.size(), 1u);
  close(second);
}

TEST_F(OpenConnectionsTest, LooksNoMoreOftenThanTheSweepPeriod) {
  const int first = NewSocket();
  const int second = NewSocket();
  connections_.Add(first);
  connections_.Add(second);
  EXPECT_FALSE(connections_.HasRoom(now_));
  close(first);
  EXPECT_FALSE(connections_.HasRoom(now_ + OpenConnections::kSweepPeriod - absl::Nanoseconds(1)));
  EXPECT_TRUE(connections_.HasRoom(now_ + OpenConnections::kSweepPeriod));
  close(second);
}

TEST_F(OpenConnectionsTest, DescriptorThatIsAnotherSocketNowIsNotTheConnection) {
  const int first = NewSocket();
  const int second = NewSocket();
  connections_.Add(first);
  connections_.Add(second);
  const int other = NewSocket();
  ASSERT_EQ(dup2(other, first), first);
  close(other);
  EXPECT_TRUE(connections_.HasRoom(now_));
  EXPECT_EQ(connections_.size(), 1u);
  close(first);
  close(second);
}

TEST_F(OpenConnectionsTest, DescriptorThatIsNoSocketNowIsNotTheConnection) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int first = NewSocket();
  connections_.Add(first);
  connections_.Add(ends[0]);  // a socket that was closed before it could be named
  ASSERT_EQ(dup2(ends[1], first), first);
  EXPECT_TRUE(connections_.HasRoom(now_));
  EXPECT_EQ(connections_.size(), 0u);
  for (const int fd : {ends[0], ends[1], first}) close(fd);
}

TEST_F(OpenConnectionsTest, NumberGivenAgainCountsOnce) {
  const int first = NewSocket();
  connections_.Add(first);
  const int other = NewSocket();
  ASSERT_EQ(dup2(other, first), first);
  connections_.Add(first);
  EXPECT_EQ(connections_.size(), 1u);
  EXPECT_TRUE(connections_.HasRoom(now_));
  close(first);
  close(other);
}

}  // namespace
}  // namespace tessera
