// The echo server and its client, over a real socket.
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "client/cpp/load/echo_message.h"
#include "client/cpp/load/echo_server.h"
#include "client/cpp/load/echo_target.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"

namespace tessera::load {
namespace {

std::string Bytes(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(message.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

absl::Span<const std::byte> AsBytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

TEST(EchoMessageTest, AnswerRepeatsTheRequestThenZeros) {
  const std::string payload = "abcdefgh";
  const grpc::ByteBuffer request = EchoRequest({7, 30}, AsBytes(payload));
  ASSERT_TRUE(ReadEchoHeader(request).has_value());
  EXPECT_EQ(ReadEchoHeader(request)->id, 7u);
  EXPECT_EQ(ReadEchoHeader(request)->answer_bytes, 30u);
  EXPECT_EQ(EchoPayloadBytes(request), 8u);

  const auto answer = EchoAnswer({7, 30}, request, 13);
  ASSERT_EQ(answer.size(), 3u);
  std::string all;
  for (const grpc::ByteBuffer& message : answer) {
    EXPECT_EQ(ReadEchoHeader(message)->id, 7u);
    EXPECT_LE(EchoPayloadBytes(message), 13u);
    all += Bytes(message).substr(kEchoHeaderBytes);
  }
  EXPECT_EQ(all, Bytes(request) + std::string(6, '\0'));
}

TEST(EchoMessageTest, EmptyAnswerIsOneMessage) {
  const grpc::ByteBuffer request = EchoRequest({1, 0}, {});
  EXPECT_EQ(request.Length(), kEchoHeaderBytes);
  const auto answer = EchoAnswer({1, 0}, request, 100);
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(EchoPayloadBytes(answer[0]), 0u);
}

TEST(EchoMessageTest, RefusesShortMessagesAndHugeWishes) {
  const grpc::Slice slice(std::string(kEchoHeaderBytes - 1, 'x'));
  EXPECT_FALSE(ReadEchoHeader(grpc::ByteBuffer(&slice, 1)).has_value());
  EXPECT_FALSE(ReadEchoHeader(EchoRequest({1, kMaxEchoAnswerBytes + 1}, {})).has_value());
  EXPECT_TRUE(ReadEchoHeader(EchoRequest({1, kMaxEchoAnswerBytes}, {})).has_value());
  EXPECT_TRUE(ReadEchoHeader(EchoRequest({1, kEchoMoreToCome}, {})).has_value());
}

class EchoTest : public testing::TestWithParam<bool> {
 protected:
  EchoTest() : server_(*EchoServer::Start("127.0.0.1:0")) {
    options_.address = "127.0.0.1:" + std::to_string(server_->port());
    options_.connections = 3;
    options_.stream = GetParam();
  }

  // 6 KiB up; 3 MiB up; 10 MiB, which is striped; an answer larger than its request; nothing at all.
  const std::vector<CallShape> shapes_ = {*ParseCallShape("s=1"), *ParseCallShape("s=256"),
                                          *ParseCallShape("s=512,kv=1024"),
                                          *ParseCallShape("s=600,kv=1,heads=16,kv_heads=1"), *ParseCallShape("s=0")};
  const PayloadPool pool_{shapes_, 2, 1};
  EchoOptions options_;
  std::unique_ptr<EchoServer> server_;
};

TEST_P(EchoTest, EveryCallEndsOnce) {
  EchoTarget target(options_, shapes_, &pool_);
  ASSERT_TRUE(target.AwaitConnected().ok());
  constexpr int kCalls = 60;
  absl::BlockingCounter ended(kCalls);
  std::atomic<int> ok{0};
  for (int i = 0; i < kCalls; ++i) {
    target.Issue({static_cast<size_t>(i) % shapes_.size(), static_cast<uint64_t>(i)}, [&](const Answer& answer) {
      EXPECT_TRUE(answer.status.ok()) << answer.status;
      EXPECT_FALSE(answer.timing.known());
      ++ok;
      ended.DecrementCount();
    });
  }
  ended.Wait();
  EXPECT_EQ(ok, kCalls);
}

TEST_P(EchoTest, LostServerFailsTheCalls) {
  EchoTarget target(options_, shapes_, &pool_);
  ASSERT_TRUE(target.AwaitConnected().ok());
  absl::Notification first;
  target.Issue({0, 0}, [&](const Answer&) { first.Notify(); });
  first.WaitForNotification();
  server_.reset();
  absl::Notification second;
  absl::Status status;
  target.Issue({1, 0}, [&](const Answer& answer) {
    status = answer.status;
    second.Notify();
  });
  second.WaitForNotification();
  EXPECT_FALSE(status.ok());
}

INSTANTIATE_TEST_SUITE_P(Transports, EchoTest, testing::Bool(),
                         [](const auto& param_info) { return param_info.param ? "Stream" : "Unary"; });

TEST(EchoTargetTest, NobodyThereIsUnavailable) {
  const std::vector<CallShape> shapes = {*ParseCallShape("s=1")};
  const PayloadPool pool(shapes, 1, 1);
  std::string address;
  {
    const auto server = *EchoServer::Start("127.0.0.1:0");
    address = "127.0.0.1:" + std::to_string(server->port());
  }
  EchoTarget target({.address = address, .connections = 1, .timeout = absl::Milliseconds(100)}, shapes, &pool);
  EXPECT_EQ(target.AwaitConnected().code(), absl::StatusCode::kUnavailable);
}

TEST(EchoServerTest, TakenPortIsRefused) {
  const auto server = *EchoServer::Start("127.0.0.1:0");
  const auto second = EchoServer::Start("127.0.0.1:" + std::to_string(server->port()));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
}

TEST(EchoServerTest, PortsThatWouldBeReadAsOthersAreRefused) {
  EXPECT_FALSE(EchoServer::Start("127.0.0.1:65536").ok());
  EXPECT_FALSE(EchoServer::Start("127.0.0.1:74464").ok());
}

TEST(EchoServerTest, RefusesMessagesWithoutHeaderAndOtherMethods) {
  const auto server = *EchoServer::Start("127.0.0.1:0");
  grpc::GenericStub stub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(server->port()), grpc::InsecureChannelCredentials()));
  const auto call = [&stub](const char* method) {
    grpc::ClientContext context;
    const grpc::Slice slice("short");
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    absl::Notification done;
    grpc::Status result;
    stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &response, [&](const grpc::Status& status) {
      result = status;
      done.Notify();
    });
    done.WaitForNotification();
    return result.error_code();
  };
  EXPECT_EQ(call(kEchoUnaryMethod), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(call(kEchoStreamMethod), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(call("/tessera.load.Echo/Other"), grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace tessera::load
