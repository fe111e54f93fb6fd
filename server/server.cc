#include "server/server.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/ext/channelz_service_plugin.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server_builder.h"
#include "server/engine/kind_runner.h"
#include "server/metrics/metric_names.h"
#include "server/metrics/process_collector.h"
#include "server/metrics/scrape_gauges.h"
#include "server/process/logging.h"
#include "server/process/version.h"
#include "server/rpc/extend_header.h"

namespace tessera {
namespace {

// What health is asked about, besides the whole server ("").
constexpr const char* kServiceNames[] = {"tessera.v1.AttentionService", "tessera.v1.RegionService",
                                         "tessera.v1.SequenceService", "tessera.v1.ServerService"};

v1::DeviceInfo DescribeDevice(Device& device, bool lost) {
  const DeviceInfo info = device.info();
  v1::DeviceInfo description;
  description.set_index(static_cast<uint32_t>(info.index));
  description.set_name(info.name);
  description.set_kernel(info.kernel);
  description.set_memory_bytes(static_cast<uint64_t>(info.memory_bytes));
  description.set_memory_used_bytes(static_cast<uint64_t>(device.memory_in_use()));
  description.set_slots(static_cast<uint32_t>(info.slots));
  description.set_lost(lost);
  if (const RegionMapper* const mapper = device.region_mapper(); mapper != nullptr) {
    description.set_uuid(std::string(mapper->uuid().begin(), mapper->uuid().end()));
  }
  return description;
}

std::vector<DeviceLabels> LabelsOf(const std::vector<Device*>& devices) {
  std::vector<DeviceLabels> labels;
  for (const Device* device : devices) {
    const DeviceInfo info = device->info();
    labels.push_back({absl::StrCat(info.index), info.name, info.kernel});
  }
  return labels;
}

// Whose memory the pages of profile `profile` are in.
size_t DeviceOf(size_t profile, const std::vector<Device*>& devices) { return profile % devices.size(); }

// The least memory that one of the devices has for tensors, beside its pages; 0 where they stay in staging memory.
int64_t LeastMemory(const ServerConfig& config, const std::vector<Device*>& devices) {
  std::vector<int64_t> left;
  for (const Device* device : devices) left.push_back(device->info().memory_bytes);
  if (left.front() == 0) return 0;
  for (size_t i = 0; i < config.kv_profiles.size(); ++i) left[DeviceOf(i, devices)] -= config.kv_profiles[i].bytes();
  return std::max<int64_t>(1, *std::min_element(left.begin(), left.end()));
}

std::vector<RegionMapper*> MappersOf(const std::vector<Device*>& devices) {
  std::vector<RegionMapper*> mappers;
  for (Device* device : devices) mappers.push_back(device->region_mapper());
  return mappers;
}

AttendLimits LimitsFor(const ServerConfig& config, const std::vector<Device*>& devices) {
  return FittedLimits(config, static_cast<int64_t>(devices.front()->staging().capacity()),
                      devices.front()->info().backend, LeastMemory(config, devices));
}

void SetTransportOptions(const ServerConfig& config, grpc::ServerBuilder* builder) {
  // gRPC's own refusal names no setting and looks like a shortage that passes. With this headroom the usual message
  // that is too large comes through to be refused properly; beyond it gRPC refuses, so that none takes more memory.
  builder->SetMaxReceiveMessageSize(
      static_cast<int>(std::min<int64_t>(2 * config.max_message_bytes, std::numeric_limits<int>::max())));
  builder->SetMaxSendMessageSize(-1);
  builder->SetDefaultCompressionAlgorithm(GRPC_COMPRESS_NONE);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, config.max_concurrent_streams);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              static_cast<int>(absl::ToInt64Milliseconds(config.min_ping_interval)));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                              static_cast<int>(absl::ToInt64Milliseconds(config.keepalive)));
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                              static_cast<int>(absl::ToInt64Milliseconds(config.handshake_timeout)));
  builder->AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 1);
  grpc::ResourceQuota quota("tessera");
  quota.Resize(static_cast<size_t>(config.transport_bytes));
  builder->SetResourceQuota(quota);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerConfig& config, std::vector<Device*> devices,
                                                      Clock* clock, FatalFn on_fatal) {
  absl::Status status = ValidateConfig(config);
  if (!status.ok()) return status;
  std::unique_ptr<Server> server(new Server(config, std::move(devices), clock, std::move(on_fatal)));
  status = server->Secure();
  if (status.ok()) status = server->OpenCaches();
  if (status.ok()) status = server->ExposeMetrics();
  if (status.ok()) status = server->Listen();
  if (!status.ok()) return status;
  return server;
}

Server::Server(const ServerConfig& config, std::vector<Device*> devices, Clock* clock, FatalFn on_fatal)
    : config_(config),
      devices_(std::move(devices)),
      clock_(clock),
      on_fatal_(std::move(on_fatal)),
      metrics_({kVersion, config.revision, devices_.front()->info().backend}, LabelsOf(devices_)),
      observer_(&metrics_, &open_rpcs_),
      budget_(BudgetLimits(config, static_cast<int64_t>(staging().capacity())), clock),
      admission_(config.max_message_bytes, &budget_, &staging(), clock),
      scheduler_(SchedulerOptionsFor(config, devices_.front()->info().backend), devices_.size(), clock),
      deadlines_(clock),
      environment_{LimitsFor(config, devices_),
                   clock,
                   &admission_,
                   &scheduler_,
                   &deadlines_,
                   &observer_,
                   config.token_file.empty() ? nullptr : &tokens_},
      region_host_(config.regions, config.attend.max_tenant_memory_share, MappersOf(devices_)),
      sequences_{environment_, ServerNames(config.advertise, config.peers), {}},
      lease_sweep_(&deadlines_, clock),
      attention_service_(environment_),
      region_service_(environment_, &region_host_),
      sequence_service_(sequences_),
      server_service_(Facts(), environment_),
      lost_(devices_.size(), false),
      engines_left_(devices_.size()) {}

ServerFacts Server::Facts() {
  ServerFacts facts;
  facts.version = kVersion;
  facts.revision = config_.revision;
  facts.backend = devices_.front()->info().backend;
  facts.max_message_bytes = config_.max_message_bytes;
  facts.max_queue_requests = config_.scheduler.max_queue_jobs * static_cast<int64_t>(devices_.size());
  facts.devices = [this] { return DescribeDevices(); };
  for (const CacheProfile& profile : config_.kv_profiles) facts.cache_profiles.push_back(ToMessage(profile));
  facts.regions = &region_host_;
  return facts;
}

std::vector<v1::DeviceInfo> Server::DescribeDevices() const {
  std::vector<v1::DeviceInfo> descriptions;
  for (size_t i = 0; i < devices_.size(); ++i) descriptions.push_back(DescribeDevice(*devices_[i], Lost(i)));
  return descriptions;
}

absl::Status Server::Secure() {
  absl::StatusOr<std::unique_ptr<PortSecurity>> security = PortSecurity::Open(config_, &tokens_, &observer_, &metrics_);
  if (!security.ok()) return security.status();
  security_ = *std::move(security);
  return absl::OkStatus();
}

absl::Status Server::OpenCaches() {
  for (size_t i = 0; i < config_.kv_profiles.size(); ++i) {
    const CacheProfile& profile = config_.kv_profiles[i];
    const size_t device = DeviceOf(i, devices_);
    absl::StatusOr<std::unique_ptr<StagingPool::Region>> pages =
        devices_[device]->TakePages(static_cast<size_t>(profile.bytes()));
    if (!pages.ok()) {
      return absl::Status(pages.status().code(),
                          absl::StrCat("kv_profiles: profile \"", profile.name, "\": ", pages.status().message()));
    }
    absl::StatusOr<std::unique_ptr<StagingPool::Region>> host_pages = nullptr;
    if (profile.host_pages > 0) {
      host_pages = devices_[device]->TakeHostPages(static_cast<size_t>(profile.host_bytes()));
    }
    if (!host_pages.ok()) {
      return absl::Status(host_pages.status().code(), absl::StrCat("kv_profiles: profile \"", profile.name,
                                                                   "\": host_pages: ", host_pages.status().message()));
    }
    sequences_.caches.push_back(
        std::make_shared<ResidentCache>(profile, device, *std::move(pages), clock_, *std::move(host_pages)));
  }
  lease_sweep_.Start(sequences_.caches);
  return absl::OkStatus();
}

void Server::EndWaitingForTurns(const absl::Status& status, std::optional<size_t> device) {
  for (const ResidentCachePtr& cache : sequences_.caches) {
    if (!device.has_value() || cache->device() == *device) cache->turns().Close(status);
  }
}

absl::Status Server::Listen() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::channelz::experimental::InitChannelzService();

  absl::StatusOr<ListeningSockets> sockets = ListeningSockets::Open(config_.listen);
  if (!sockets.ok()) return sockets.status();
  listener_ = std::make_unique<Listener>(*std::move(sockets), static_cast<size_t>(config_.max_connections), &observer_);

  grpc::ServerBuilder builder;
  SetTransportOptions(config_, &builder);
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, security_->credentials());
  builder.RegisterService(&attention_service_);
  builder.RegisterService(&region_service_);
  builder.RegisterService(&sequence_service_);
  builder.RegisterService(&server_service_);
  grpc_server_ = builder.BuildAndStart();
  if (grpc_server_ == nullptr) return absl::UnavailableError("gRPC's server did not start");
  if (!config_.health_address.empty()) {
    absl::StatusOr<std::unique_ptr<HealthPort>> health = HealthPort::Open(config_.health_address, &observer_);
    if (!health.ok()) return health.status();
    health_ = *std::move(health);
  }
  for (const char* name : kServiceNames) {
    grpc_server_->GetHealthCheckService()->SetServingStatus(name, true);
    if (health_ != nullptr) health_->service()->SetServingStatus(name, true);
  }
  // So late that a device that is lost at once finds everything there.
  for (size_t i = 0; i < devices_.size(); ++i) {
    engines_.push_back(std::make_unique<Engine>(
        config_.engine, std::make_unique<KindRunner>(devices_[i]), &scheduler_.of(i), clock_, &observer_,
        Engine::LossFns{[this, i](const absl::Status& told) { OnDeviceLost(i, told); },
                        [this, i](const absl::Status& why) { OnDeviceFatal(i, why); }}));
  }
  listener_->Start(std::move(acceptor));
  return absl::OkStatus();
}

absl::Status Server::ExposeMetrics() {
  auto gauges = std::make_shared<ScrapeGauges>();
  AddServerGauges(&scheduler_, &budget_, &region_host_.quota(), devices_, sequences_.caches, gauges.get());
  AddCacheGauges(sequences_.caches, gauges.get());
  for (size_t i = 0; i < devices_.size(); ++i) {
    gauges->Add(metric_names::kDeviceUp, "1 while the device takes calls, 0 once it is lost.",
                {{"device", absl::StrCat(i)}}, [this, i] { return Lost(i) ? 0.0 : 1.0; });
  }
  gauges->Add(metric_names::kCertificateExpiry, "When the certificate in force expires, Unix time; +Inf without TLS.",
              {}, [this] { return security_->certificate_expiry(); });
  collectables_ = {metrics_.registry(), std::move(gauges), std::make_shared<ProcessCollector>()};
  if (config_.metrics_address.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<MetricsExposer>> exposer =
      MetricsExposer::Start(config_.metrics_address, collectables_);
  if (!exposer.ok()) return exposer.status();
  exposer_ = *std::move(exposer);
  return absl::OkStatus();
}

void Server::StopAccepting() {
  grpc_server_->GetHealthCheckService()->SetServingStatus(false);
  if (health_ != nullptr) health_->service()->SetServingStatus(false);
}

void Server::EndStreamCalls(const absl::Status& status) {
  attention_service_.EndStreamCalls(status);
  region_service_.EndStreamCalls(status);
  sequence_service_.EndStreamCalls(status);
}

bool Server::Drain(absl::Duration timeout) {
  const absl::Time deadline = clock_->Now() + timeout;
  admission_.Close();
  const bool drained = admission_.Drain(deadline);
  scheduler_.Close();
  if (!drained) {
    scheduler_.Abort(absl::UnavailableError("the server stopped"));
    EndWaitingForTurns(absl::UnavailableError("the server stopped"));
    EndStreamCalls(absl::UnavailableError("the server stopped"));
  }
  attention_service_.CloseStreams();
  region_service_.CloseStreams();
  sequence_service_.CloseStreams();
  listener_->Stop();
  open_rpcs_.AwaitQuiet(kQuietTime, Clock::Real()->Now() + kFlushTime - kCloseTime);
  grpc_server_->Shutdown(absl::ToChronoTime(absl::Now() + kCloseTime));
  return drained;
}

bool Server::AwaitMemory(absl::Duration timeout) const {
  const absl::Time deadline = Clock::Real()->Now() + timeout;
  while (budget_.in_use() > 0 || staging().in_use() > 0 || region_host_.quota().in_use().regions > 0) {
    if (Clock::Real()->Now() >= deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

void Server::OnDeviceLost(size_t device, const absl::Status& told) {
  bool last;
  {
    absl::MutexLock lock(&loss_mutex_);
    lost_[device] = true;
    last = std::find(lost_.begin(), lost_.end(), false) == lost_.end();
  }
  EndWaitingForTurns(told, device);
  if (!last) return;  // the others take the calls that come
  StopAccepting();
  admission_.Close(told);
  EndStreamCalls(told);
}

void Server::OnDeviceFatal(size_t device, const absl::Status& why) {
  size_t left;
  {
    absl::MutexLock lock(&loss_mutex_);
    left = --engines_left_;
  }
  Log(LogLevel::kError, "device_lost", {{"device", device}, {"status", why.ToString()}, {"devices_left", left}});
  if (left == 0) on_fatal_(why);
}

bool Server::Lost(size_t device) const {
  absl::MutexLock lock(&loss_mutex_);
  return lost_[device];
}

Server::~Server() {
  exposer_.reset();
  admission_.Close();
  scheduler_.Close();
  scheduler_.Abort(absl::UnavailableError("the server stopped"));
  EndWaitingForTurns(absl::UnavailableError("the server stopped"));
  if (grpc_server_ != nullptr) {
    listener_->Stop();
    grpc_server_->Shutdown(absl::ToChronoTime(absl::Now()));
    grpc_server_->Wait();
  }
  deadlines_.Stop();
  engines_.clear();
  AwaitMemory(kFlushTime);
}

}  // namespace tessera
