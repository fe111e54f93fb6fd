// The golden vectors through the C++ client and a server in this process.
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "client/cpp/tessera/client.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "server/clock/clock.h"
#include "server/config/config.h"
#include "server/device/cpu_device.h"
#include "server/server.h"
#include "tests/golden/vectors.h"

namespace tessera::testing {
namespace {

absl::Span<const std::byte> Bytes(const std::string& bytes) {
  return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
}

// On the CPU backend, on a free port.
class GoldenServer {
 public:
  GoldenServer() {
    ServerConfig config;
    config.listen = "127.0.0.1:0";
    config.metrics_address = "";
    config.staging_bytes = 8 << 20;
    device_ = *CpuDevice::Make(MakeCpuBackend(/*threads=*/2), static_cast<size_t>(config.staging_bytes), /*slots=*/1,
                               Clock::Real());
    server_ = *Server::Start(config, {device_.get()}, Clock::Real(),
                             [](const absl::Status& status) { ADD_FAILURE() << "the device is lost: " << status; });
  }

  std::string target() const { return absl::StrCat("127.0.0.1:", server_->grpc_port()); }

 private:
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<Server> server_;
};

class ServerGoldenTest : public ::testing::TestWithParam<Transport> {
 protected:
  GoldenServer server_;
};

INSTANTIATE_TEST_SUITE_P(Transports, ServerGoldenTest, ::testing::Values(Transport::kUnary, Transport::kStream),
                         [](const auto& param) { return param.param == Transport::kUnary ? "Unary" : "Stream"; });

TEST_P(ServerGoldenTest, EveryAnswerAgrees) {
  ClientOptions options;
  options.transport = GetParam();
  options.chunk_bytes = 3000;  // so that chunks and stripes are used
  options.stripe_threshold_bytes = 10000;
  const std::unique_ptr<Client> client = *Client::Connect(server_.target(), options);
  const std::vector<GoldenCase> cases = LoadGoldenCases();
  ASSERT_GE(cases.size(), 19u);
  for (const GoldenCase& golden : cases) {
    SCOPED_TRACE(golden.name);
    AttendCall call;
    call.header = golden.request.header();
    call.q = Bytes(golden.request.q());
    call.k = Bytes(golden.request.k());
    call.v = Bytes(golden.request.v());
    std::vector<std::byte> o(golden.request.q().size(), std::byte{0xa5});
    std::vector<std::byte> lse(golden.lse.size() * sizeof(float), std::byte{0xa5});
    call.o = absl::MakeSpan(o);
    call.lse = absl::MakeSpan(lse);
    const absl::StatusOr<AttendReply> reply = client->Attend(call);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(Disagreement(Widen(golden.request.header().dtype(), o), golden.o, golden.o_tolerance), std::nullopt);
    EXPECT_EQ(Disagreement(Widen(v1::DATA_TYPE_FLOAT32, lse), golden.lse, golden.lse_tolerance), std::nullopt);
  }
}

TEST(ServerRefusalTest, EveryRefusalIsOne) {
  GoldenServer server;
  grpc::GenericStub stub(grpc::CreateChannel(server.target(), grpc::InsecureChannelCredentials()));
  const std::vector<RefusedCase> cases = LoadRefusedCases();
  ASSERT_GE(cases.size(), 15u);
  for (const RefusedCase& refused : cases) {
    SCOPED_TRACE(refused.name);
    ASSERT_EQ(refused.code, "INVALID_ARGUMENT");
    const grpc::Slice slice(refused.request);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::ClientContext context;
    grpc::Status status;
    absl::Notification done;
    stub.UnaryCall(&context, "/tessera.v1.AttentionService/Attend", {}, &request, &response, [&](grpc::Status end) {
      status = std::move(end);
      done.Notify();
    });
    done.WaitForNotification();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_TRUE(std::regex_search(status.error_message(), std::regex("\\b" + refused.names + "\\b")))
        << status.error_message() << " does not name " << refused.names;
  }
}

}  // namespace
}  // namespace tessera::testing
