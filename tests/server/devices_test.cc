// A server with several devices: calls are spread, and one device's loss is not the others'.
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/random/seed.h"
#include "tests/server/attend_messages.h"
#include "tests/server/await.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

class DevicesTest : public ::testing::Test {
 protected:
  v1::AttendRequest Small() { return Request(Header({4}), rng_); }

  // Ends the test where a call fails or its answer is wrong.
  void ExpectServed(TestServer& server, int calls) {
    for (int i = 0; i < calls; ++i) {
      UnaryCall call(server.attention(), Small());
      ASSERT_TRUE(call.Await().ok()) << call.Await().error_message();
      EXPECT_LT(Error(call.request(), call.response().o()), 1e-5);
    }
  }

  std::mt19937_64 rng_{RandomSeed()};
};

TEST_F(DevicesTest, CallsGoWhereTheLeastIsOutstanding) {
  TestServer server("run@1=hang", TestServer::Config(), 3);
  std::vector<std::unique_ptr<UnaryCall>> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(std::make_unique<UnaryCall>(server.attention(), Small()));
  for (size_t i = 0; i < 3; ++i) server.device(i).AwaitBatch(1);
  for (size_t i = 0; i < 3; ++i) server.device(i).ReleaseAll();
  for (const auto& call : calls) {
    ASSERT_TRUE(call->Await().ok());
    EXPECT_LT(Error(call->request(), call->response().o()), 1e-5);
  }
  const v1::GetServerInfoResponse info = server.Info();
  ASSERT_EQ(info.devices_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(info.devices(i).index(), static_cast<uint32_t>(i));
    EXPECT_FALSE(info.devices(i).lost());
    const std::string labels = "{device=\"" + std::to_string(i) + "\",kernel=\"cpu\"}";
    EXPECT_GT(server.Metrics()["tessera_hbm_bytes_total" + labels], 0);
  }
}

TEST_F(DevicesTest, LossOfOneLeavesTheOthersServing) {
  TestServer server("0/run@1=hang; 0/run@2=sticky; 1/run@1=hang", TestServer::Config(), 2);
  UnaryCall first(server.attention(), Small());
  UnaryCall second(server.attention(), Small());
  server.device(0).AwaitBatch(1);
  server.device(1).AwaitBatch(1);
  // Equal costs on both: two more calls wait, one on each.
  UnaryCall third(server.attention(), Small());
  UnaryCall fourth(server.attention(), Small());
  server.AwaitQueued(2);
  server.device(0).ReleaseAll();
  Await("the loss", [&] { return third.done() || fourth.done(); });
  UnaryCall& doomed = third.done() ? third : fourth;
  UnaryCall& other = third.done() ? fourth : third;
  EXPECT_EQ(doomed.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(doomed.Await().error_message(), "device lost");
  server.AwaitMetric("tessera_device_up{device=\"0\"}", 0);
  EXPECT_EQ(server.Metrics()["tessera_device_up{device=\"1\"}"], 1);
  EXPECT_TRUE(server.Serving());

  server.device(1).ReleaseAll();
  EXPECT_TRUE(other.Await().ok());
  EXPECT_TRUE(first.Await().ok());
  EXPECT_TRUE(second.Await().ok());
  ExpectServed(server, 10);
  EXPECT_TRUE(server.Serving("tessera.v1.AttentionService"));
  const v1::GetServerInfoResponse info = server.Info();
  EXPECT_TRUE(info.devices(0).lost());
  EXPECT_FALSE(info.devices(1).lost());
}

TEST_F(DevicesTest, LossOfTheLastEndsTheServing) {
  TestServer server("run@2=sticky", TestServer::Config(), 2);
  int unavailable = 0;
  for (int calls = 0; unavailable < 2; ++calls) {
    ASSERT_LT(calls, 4) << "each device fails its second batch";
    UnaryCall call(server.attention(), Small());
    if (call.Await().ok()) continue;
    EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
    // The last one's loss is announced before its calls end.
    EXPECT_EQ(server.Serving(), ++unavailable == 1);
  }
  EXPECT_FALSE(server.AwaitFatal().ok());
  UnaryCall late(server.attention(), Small());
  EXPECT_EQ(late.Await().error_message(), "device lost");
}

TEST_F(DevicesTest, HangOfOneLeavesTheOthersServing) {
  ServerConfig config = TestServer::Config();
  config.engine.hang_timeout = absl::Seconds(5);
  TestServer server("0/run@1=hang", config, 2);
  UnaryCall hung(server.attention(), Small());
  server.device(0).AwaitBatch(1);
  Await("the hanging call's end", [&] {
    server.clock().Advance(absl::Seconds(1));
    return hung.done();
  });
  EXPECT_EQ(hung.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
  ExpectServed(server, 10);
  EXPECT_TRUE(server.Serving());
  server.device(0).ReleaseAll();
}

TEST_F(DevicesTest, MemoryOfALostDevicesCallsComesBack) {
  TestServer server("0/run@1=sticky", TestServer::Config(), 2);
  UnaryCall doomed(server.attention(), Small());
  EXPECT_EQ(doomed.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
  ExpectServed(server, 3);
  server.AwaitIdle();
}

}  // namespace
}  // namespace tessera::testing
