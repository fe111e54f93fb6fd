// Who may connect: addresses, the bound on connections, and what happens without file descriptors.
#include <unistd.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "tests/server/attend_messages.h"
#include "tests/server/await.h"
#include "tests/server/connection.h"
#include "tests/server/metrics_reader.h"
#include "tests/server/server_process.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

constexpr char kRefused[] = "tessera_rejected_total{reason=\"connections\"}";
constexpr char kOutOfFiles[] = "tessera_rejected_total{reason=\"file_descriptors\"}";

class ConnectionsTest : public ::testing::Test {
 protected:
  // One call on a connection of its own.
  grpc::Status CallAt(const std::string& target) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
    const auto stub = v1::AttentionService::NewStub(channel);
    UnaryCall call(*stub, Request(Header({9}), rng_));
    return call.Await();
  }
  static std::string Local(int port) { return "127.0.0.1:" + std::to_string(port); }

  std::mt19937_64 rng_{91};
};

TEST_F(ConnectionsTest, OneBeyondTheBoundIsClosedAtOnceAndCounted) {
  ServerConfig config = TestServer::Config();
  config.max_connections = 3;
  TestServer server("", config);
  const int port = server.server().grpc_port();
  std::vector<Connection> connections;
  for (int i = 0; i < 3; ++i) {
    connections.emplace_back(port);
    EXPECT_FALSE(connections.back().ClosedAtOnce());
  }
  EXPECT_TRUE(Connection(port).ClosedAtOnce());
  EXPECT_EQ(server.Metrics()[kRefused], 1);
  EXPECT_EQ(CallAt(Local(port)).error_code(), grpc::StatusCode::UNAVAILABLE);

  connections.pop_back();
  // gRPC lets go of its end a little later.
  Await("the closed connection's room", [&] { return !Connection(port).ClosedAtOnce(); });
  Await("the closed connection's room", [&] { return CallAt(Local(port)).ok(); });
}

TEST_F(ConnectionsTest, ComeAndGoForEverUnderTheBound) {
  ServerConfig config = TestServer::Config();
  config.max_connections = 2;
  TestServer server("", config);
  const int port = server.server().grpc_port();
  for (int i = 0; i < 50; ++i) Await("room", [&] { return !Connection(port).ClosedAtOnce(); });
}

TEST_F(ConnectionsTest, ThoseThatSayNothingLoseTheirPlaces) {
  ServerConfig config = TestServer::Config();
  config.max_connections = 2;
  config.handshake_timeout = absl::Seconds(5);  // in which a busy machine gets to the first call
  TestServer server("", config);
  const int port = server.server().grpc_port();
  const Connection one(port), other(port);
  EXPECT_FALSE(CallAt(Local(port)).ok());
  // gRPC's own bound would be two minutes, longer than this waits.
  Await("the place of a silent connection", [&] { return CallAt(Local(port)).ok(); });
}

TEST_F(ConnectionsTest, AddressesOfEveryKindServe) {
  const std::string path = ::testing::TempDir() + "/tessera_connections_" + std::to_string(getpid());
  for (const std::string& address : {std::string("127.0.0.1:0"), std::string("0.0.0.0:0"), std::string("localhost:0"),
                                     "unix:" + path, "unix-abstract:tessera_connections_" + std::to_string(getpid())}) {
    ServerConfig config = TestServer::Config();
    config.listen = address;
    TestServer server("", config);
    const int port = server.server().grpc_port();
    const grpc::Status status = CallAt(port == 0 ? address : Local(port));
    EXPECT_TRUE(status.ok()) << address << ": " << status.error_message();
  }
}

TEST_F(ConnectionsTest, ServesOnAfterTheProcessWasOutOfFileDescriptors) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UndefinedBehaviorSanitizer opens a pipe to look at an object, and takes failure for a bad object";
#endif
  const ServerProcess process(TESSERA_SERVER, {"--backend=cpu"});
  ASSERT_TRUE(process.serving());
  process.SetMaxFiles(150);
  {
    std::vector<Connection> connections;
    for (int i = 0; i < 200; ++i) connections.emplace_back(process.grpc_port());
    EXPECT_TRUE(connections.back().ClosedAtOnce());
  }
  Await("connections", [&] { return CallAt(process.target()).ok(); });
  EXPECT_GE(MetricsReader::Scrape(process.metrics_port())[kOutOfFiles], 1);
}

TEST_F(ConnectionsTest, LowLimitOnFileDescriptorsBoundsConnections) {
  const ServerProcess process(TESSERA_SERVER, {"--backend=cpu"}, {}, 150);
  ASSERT_TRUE(process.serving());
  {
    std::vector<Connection> connections;
    for (int i = 0; i < 200; ++i) connections.emplace_back(process.grpc_port());
    EXPECT_TRUE(connections.back().ClosedAtOnce());
    // There are descriptors left for a scrape.
    MetricsReader metrics = MetricsReader::Scrape(process.metrics_port());
    EXPECT_GE(metrics[kRefused], 1);
    EXPECT_EQ(metrics[kOutOfFiles], 0);
  }
  Await("connections", [&] { return CallAt(process.target()).ok(); });
}

}  // namespace
}  // namespace tessera::testing
