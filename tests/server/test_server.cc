#include "tests/server/test_server.h"

#include <atomic>
#include <cstdint>
#include <sstream>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/time/clock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/paged_backend.h"
#include "prometheus/text_serializer.h"
#include "server/device/cpu_device.h"
#include "tests/server/await.h"
#include "tests/server/raw_rpc.h"

namespace tessera::testing {
namespace {

std::vector<std::unique_ptr<FaultDevice>> MakeDevices(const std::string& faults, const ServerConfig& config, int count,
                                                      Clock* clock) {
  const absl::StatusOr<FaultScript> script = ParseFaultScript(faults);
  ABSL_RAW_CHECK(script.ok(), "the fault script makes no sense");
  absl::StatusOr<std::unique_ptr<StagingPool::Region>> region =
      StagingPool::MapAnonymous(static_cast<size_t>(config.staging_bytes));
  ABSL_RAW_CHECK(region.ok(), "no staging memory");
  const auto staging = std::make_shared<StagingPool>(*std::move(region));
  std::vector<std::unique_ptr<FaultDevice>> devices;
  for (int i = 0; i < count; ++i) {
    auto cpu = std::make_unique<CpuDevice>(i, MakeCpuBackend(config.threads), staging, SlotsFor(config, "cpu"), clock,
                                           MakeCpuPagedBackend(config.threads));
    devices.push_back(std::make_unique<FaultDevice>(std::move(cpu), ScriptOf(*script, i), clock));
  }
  return devices;
}

std::vector<Device*> Borrow(const std::vector<std::unique_ptr<FaultDevice>>& devices) {
  std::vector<Device*> borrowed;
  for (const auto& device : devices) borrowed.push_back(device.get());
  return borrowed;
}

}  // namespace

ServerConfig TestServer::Config() {
  ServerConfig config;
  config.listen = "127.0.0.1:0";
  config.metrics_address = "";
  config.threads = 2;
  config.staging_bytes = 8 << 20;
  config.max_inflight_bytes = 32 << 20;
  return config;
}

TestServer::TestServer(const std::string& faults, const ServerConfig& config, int devices)
    : devices_(MakeDevices(faults, config, devices, &clock_)) {
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start(config, Borrow(devices_), &clock_, [this](const absl::Status& status) {
        absl::MutexLock lock(&mutex_);
        fatal_ = status;
      });
  ABSL_RAW_CHECK(server.ok(), "the server does not start");
  server_ = *std::move(server);
  channel_ = NewChannel();
  attention_ = v1::AttentionService::NewStub(channel_);
}

absl::Status TestServer::AwaitFatal() {
  absl::MutexLock lock(&mutex_);
  const auto lost = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !fatal_.ok(); };
  ABSL_RAW_CHECK(mutex_.AwaitWithTimeout(absl::Condition(&lost), kLongestWait), "the device has not been lost");
  return fatal_;
}

std::shared_ptr<grpc::Channel> TestServer::NewChannel() const {
  static std::atomic<int> number{0};
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // Windows stay as small as they begin, so that a client that does not read soon holds its server up.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // Channels with equal arguments would share a connection.
  arguments.SetInt("tessera.test.channel", number++);
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server_->grpc_port()),
                                   grpc::InsecureChannelCredentials(), arguments);
}

std::string MetricsText(const Server& server) {
  std::ostringstream text;
  for (const auto& collectable : server.collectables()) {
    prometheus::TextSerializer().Serialize(text, collectable->Collect());
  }
  return text.str();
}

v1::GetServerInfoResponse TestServer::Info() const {
  grpc::ClientContext context;
  v1::GetServerInfoResponse response;
  const grpc::Status status = v1::ServerService::NewStub(channel_)->GetServerInfo(&context, {}, &response);
  ABSL_RAW_CHECK(status.ok(), "GetServerInfo failed");
  return response;
}

void TestServer::AwaitOccupancy(const std::function<bool(const v1::Occupancy&)>& done) const {
  Await("the server's occupancy", [&] { return done(Info().occupancy()); });
}

void TestServer::AwaitQueued(uint32_t requests) const { AwaitMetric("tessera_queue_requests", requests); }

void TestServer::AwaitIdle() const {
  AwaitOccupancy([](const v1::Occupancy& occupancy) {
    return occupancy.inflight_bytes() == 0 && occupancy.staging_used_bytes() == 0 && occupancy.queue_requests() == 0;
  });
}

void TestServer::AwaitMetrics(const std::function<bool(const MetricsReader&)>& done) const {
  Await("the server's metrics", [&] { return done(Metrics()); });
}

void TestServer::AwaitMetric(const std::string& sample, double value) const {
  AwaitMetrics([&](const MetricsReader& metrics) { return metrics[sample] == value; });
}

bool TestServer::Serving(const std::string& service) const {
  // HealthCheckRequest{service = 1}, HealthCheckResponse{status = 1: SERVING = 1}.
  std::string request;
  if (!service.empty()) request = std::string("\x0a") + static_cast<char>(service.size()) + service;
  std::string response;
  const grpc::Status status = RawCall(channel_, "/grpc.health.v1.Health/Check", request, &response);
  return status.ok() && response == "\x08\x01";
}

UnaryCall::UnaryCall(v1::AttentionService::Stub& stub, v1::AttendRequest request, const std::string& tenant,
                     absl::Duration timeout, std::function<void()> on_done)
    : request_(std::move(request)) {
  if (!tenant.empty()) context_.AddMetadata("tessera-tenant", tenant);
  if (timeout != absl::InfiniteDuration()) context_.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  stub.async()->Attend(&context_, &request_, &response_, [this, on_done = std::move(on_done)](grpc::Status status) {
    status_ = std::move(status);
    if (on_done != nullptr) on_done();
    done_.Notify();
  });
}

UnaryCall::~UnaryCall() {
  context_.TryCancel();
  done_.WaitForNotification();
}

const grpc::Status& UnaryCall::Await() {
  done_.WaitForNotification();
  return status_;
}

std::string UnaryCall::RetryPushback() const {
  const auto& metadata = context_.GetServerTrailingMetadata();
  const auto found = metadata.find("grpc-retry-pushback-ms");
  return found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
}

}  // namespace tessera::testing
