// What a server says about itself: health, reflection, channelz, ServerService, metrics.
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "tessera/v1/sequence.grpc.pb.h"
#include "tests/server/attend_messages.h"
#include "tests/server/raw_rpc.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(HealthTest, EveryServiceIsServingUntilTheServerStopsAccepting) {
  TestServer server;
  for (const char* service :
       {"", "tessera.v1.AttentionService", "tessera.v1.SequenceService", "tessera.v1.ServerService"}) {
    EXPECT_TRUE(server.Serving(service)) << service;
  }
  EXPECT_FALSE(server.Serving("tessera.v1.Unknown"));
  server.server().StopAccepting();
  for (const char* service :
       {"", "tessera.v1.AttentionService", "tessera.v1.SequenceService", "tessera.v1.ServerService"}) {
    EXPECT_FALSE(server.Serving(service)) << service;
  }
}

TEST(ReflectionTest, NamesTheServices) {
  TestServer server;
  // ServerReflectionRequest{list_services = 7: ""}.
  std::string response;
  const grpc::Status status = RawCall(
      server.channel(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "\x3a\x01*", &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(response, AllOf(HasSubstr("tessera.v1.AttentionService"), HasSubstr("tessera.v1.ServerService"),
                              HasSubstr("grpc.health.v1.Health"), HasSubstr("grpc.channelz.v1.Channelz")));
}

TEST(ChannelzTest, ListsTheServer) {
  TestServer server;
  std::string response;
  const grpc::Status status = RawCall(server.channel(), "/grpc.channelz.v1.Channelz/GetServers", "", &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_GT(response.size(), 4u);
}

TEST(ServerInfoTest, SaysWhatIsServedAndRefused) {
  ServerConfig config = TestServer::Config();
  config.revision = "r1";
  config.attend.max_stream_calls = 7;
  config.attend.request.max_request_cost = 1 << 30;
  config.scheduler.max_queue_jobs = 9;
  TestServer server("", config);
  const v1::GetServerInfoResponse info = server.Info();
  EXPECT_NE(info.version(), "");
  EXPECT_EQ(info.revision(), "r1");
  EXPECT_EQ(info.backend(), "cpu");
  ASSERT_EQ(info.devices_size(), 1);
  EXPECT_EQ(info.devices(0).kernel(), "cpu");
  EXPECT_EQ(info.devices(0).slots(), 1u);
  EXPECT_NE(info.devices(0).name(), "");
  EXPECT_EQ(info.limits().max_message_bytes(), static_cast<uint64_t>(config.max_message_bytes));
  EXPECT_EQ(info.limits().max_inflight_bytes(), static_cast<uint64_t>(config.max_inflight_bytes));
  EXPECT_EQ(info.limits().max_stream_calls(), 7u);
  EXPECT_EQ(info.limits().max_request_cost(), uint64_t{1} << 30);
  EXPECT_EQ(info.limits().max_queue_requests(), 9u);
  EXPECT_EQ(info.occupancy().staging_bytes(), static_cast<uint64_t>(config.staging_bytes));
  EXPECT_EQ(info.occupancy().staging_used_bytes(), 0u);
  EXPECT_EQ(info.cache_profiles_size(), 0);
}

TEST(ServerInfoTest, ListsTheProfilesOfItsSequences) {
  ServerConfig config = TestServer::Config();
  config.kv_profiles = {{.name = "one", .layers = 3, .kv_heads = 2, .head_dim = 16, .page_tokens = 8, .pages = 4},
                        {.name = "two", .head_dim = 8, .dtype = DType::kFloat32, .float8 = true, .pages = 2}};
  TestServer server("", config);
  const v1::GetServerInfoResponse info = server.Info();
  ASSERT_EQ(info.cache_profiles_size(), 2);
  EXPECT_EQ(info.cache_profiles(0).name(), "one");
  EXPECT_EQ(info.cache_profiles(0).layers(), 3u);
  EXPECT_EQ(info.cache_profiles(1).kv_dtype(), v1::DATA_TYPE_FLOAT8_E4M3);
  // The same that a sequence's maker is told.
  v1::CreateSequencesRequest request;
  request.set_profile("one");
  v1::CreateSequencesResponse created;
  grpc::ClientContext context;
  const auto stub = v1::SequenceService::NewStub(server.channel());
  ASSERT_TRUE(stub->CreateSequences(&context, request, &created).ok());
  EXPECT_EQ(created.profile().SerializeAsString(), info.cache_profiles(0).SerializeAsString());
}

TEST(PlanTilesRpcTest, AnswersAndRefuses) {
  TestServer server;
  const auto stub = v1::ServerService::NewStub(server.channel());
  v1::PlanTilesResponse plan;
  grpc::ClientContext context;
  ASSERT_TRUE(stub->PlanTiles(&context, {}, &plan).ok());
  EXPECT_EQ(plan.tile(), 128u);
  v1::PlanTilesRequest bad;
  bad.set_head_dim(7);
  grpc::ClientContext bad_context;
  const grpc::Status status = stub->PlanTiles(&bad_context, bad, &plan);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("head_dim"));
}

TEST(PlanTilesRpcTest, MalformedMessageIsInvalidArgument) {
  TestServer server;
  for (const char* method : {"GetServerInfo", "PlanTiles"}) {
    std::string response;
    const grpc::Status status =
        RawCall(server.channel(), std::string("/tessera.v1.ServerService/") + method, "\xff\xff\xff", &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
    // It counts as handled once its answer has left.
    server.AwaitMetric("grpc_server_handled_total{grpc_code=\"InvalidArgument\",grpc_method=\"" + std::string(method) +
                           "\",grpc_service=\"tessera.v1.ServerService\",grpc_type=\"unary\"}",
                       1);
  }
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"invalid\"}"], 2);
}

TEST(MetricsTest, OneCallIsCountedEverywhere) {
  TestServer server;
  std::mt19937_64 rng(1);
  const v1::AttendRequest request = Request(Header({48}), rng);
  {
    UnaryCall call(server.attention(), request);
    ASSERT_TRUE(call.Await().ok()) << call.Await().error_message();
  }
  const std::string labels = "grpc_method=\"Attend\",grpc_service=\"tessera.v1.AttentionService\",grpc_type=\"unary\"";
  server.AwaitMetric("grpc_server_handled_total{grpc_code=\"OK\"," + labels + "}", 1);
  const MetricsReader metrics = server.Metrics();
  EXPECT_EQ(metrics["grpc_server_started_total{" + labels + "}"], 1);
  EXPECT_EQ(metrics["grpc_server_handling_seconds_count{" + labels + "}"], 1);
  EXPECT_EQ(metrics["tessera_stage_seconds_count{stage=\"receive\"}"], 1);
  EXPECT_EQ(metrics["tessera_stage_seconds_count{stage=\"queue\"}"], 1);
  EXPECT_EQ(metrics["tessera_stage_seconds_count{stage=\"send\"}"], 1);
  EXPECT_EQ(metrics["tessera_batches_total{kernel=\"cpu\"}"], 1);
  EXPECT_EQ(metrics["tessera_batch_requests_sum"], 1);
  EXPECT_EQ(metrics["tessera_batch_tokens_sum"], 48);
  EXPECT_EQ(metrics["tessera_copied_bytes_total{direction=\"receive\"}"], Payload(request).size());
  EXPECT_EQ(metrics["tessera_flops_total{device=\"0\",dtype=\"float32\",kernel=\"cpu\"}"], 4.0 * 48 * 48 * 16 * 2);
  EXPECT_GT(metrics["tessera_hbm_bytes_total{device=\"0\",kernel=\"cpu\"}"], 0);
  EXPECT_GT(metrics["tessera_tiles_total{result=\"computed\"}"], 0);
  EXPECT_EQ(metrics["tessera_queue_requests"], 0);
  EXPECT_EQ(metrics["tessera_queue_bytes"], 0);
  EXPECT_EQ(metrics["tessera_pinned_memory_bytes{kind=\"capacity\"}"], TestServer::Config().staging_bytes);
  EXPECT_EQ(metrics["tessera_device_memory_bytes{device=\"0\",kind=\"capacity\"}"], 0);
  EXPECT_GT(metrics["process_resident_memory_bytes"], 0);
  server.AwaitIdle();
  EXPECT_EQ(server.Metrics()["tessera_inflight_bytes"], 0);
  EXPECT_EQ(server.Metrics()["tessera_pinned_memory_bytes{kind=\"used\"}"], 0);
  EXPECT_EQ(server.Metrics()["tessera_pinned_memory_bytes{kind=\"tables\"}"], 0);
}

TEST(MetricsTest, NoLabelCarriesWhatACallerSays) {
  TestServer server;
  std::mt19937_64 rng(2);
  UnaryCall call(server.attention(), Request(Header({4}), rng), "a-very-private-tenant");
  ASSERT_TRUE(call.Await().ok());
  EXPECT_THAT(server.MetricsText(), Not(HasSubstr("private")));
}

TEST(MetricsTest, AreServedOverHttpOnAPortOfTheirOwn) {
  ServerConfig config = TestServer::Config();
  config.metrics_address = "127.0.0.1:0";
  TestServer server("", config);
  ASSERT_NE(server.server().metrics_port(), server.server().grpc_port());
  const MetricsReader metrics = MetricsReader::Scrape(server.server().metrics_port());
  EXPECT_EQ(metrics["tessera_pinned_memory_bytes{kind=\"capacity\"}"], config.staging_bytes);
  EXPECT_EQ(metrics["tessera_rejected_total{reason=\"queue\"}"], 0);
  EXPECT_GT(metrics["process_resident_memory_bytes"], 0);
}

TEST(PortTest, PortInUseIsAnErrorNotASecondListener) {
  TestServer first;
  FakeClock clock;
  ServerConfig config = TestServer::Config();
  config.listen = "127.0.0.1:" + std::to_string(first.server().grpc_port());
  TestServer other;
  const auto second = Server::Start(config, {&other.device()}, &clock, [](const absl::Status&) {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tessera::testing
