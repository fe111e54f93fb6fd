#include "server/rpc/health_port.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/channel.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "server/rpc/recording_observer.h"

namespace tessera {
namespace {

constexpr absl::Duration kLong = absl::Seconds(20);

// A connection of its own, HTTP/2 and all, on which no call is ever made.
std::shared_ptr<grpc::Channel> SilentConnection(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), arguments);
}

bool Connects(grpc::Channel& channel, absl::Duration patience) {
  return channel.WaitForConnected(absl::ToChronoTime(absl::Now() + patience));
}

bool Closes(grpc::Channel& channel, absl::Duration patience) {
  return channel.WaitForStateChange(GRPC_CHANNEL_READY, absl::ToChronoTime(absl::Now() + patience));
}

TEST(HealthPortTest, SilentConnectionsMakeRoomForProbes) {
  grpc::EnableDefaultHealthCheckService(true);
  RecordingObserver observer;
  const auto port = HealthPort::Open("127.0.0.1:0", &observer, absl::Milliseconds(300));
  ASSERT_TRUE(port.ok()) << port.status();
  std::vector<std::shared_ptr<grpc::Channel>> silent;
  for (size_t i = 0; i < HealthPort::kMaxConnections; ++i) {
    silent.push_back(SilentConnection((*port)->port()));
    ASSERT_TRUE(Connects(*silent.back(), kLong)) << i;
  }
  EXPECT_TRUE(Connects(*SilentConnection((*port)->port()), kLong));
  // What has been closed does not come back by itself.
  for (const std::shared_ptr<grpc::Channel>& channel : silent) EXPECT_TRUE(Closes(*channel, kLong));
}

}  // namespace
}  // namespace tessera
