#include "server/rpc/server_service.h"

#include <utility>

#include "absl/status/statusor.h"
#include "server/rpc/answer_now.h"
#include "server/rpc/plan_tiles.h"

namespace tessera {
namespace {

void FillLimits(const AttendEnvironment& environment, const ServerFacts& facts, v1::Limits* limits) {
  const AttendLimits& attend = environment.limits;
  limits->set_max_message_bytes(static_cast<uint64_t>(facts.max_message_bytes));
  limits->set_max_request_bytes(static_cast<uint64_t>(attend.request.max_request_bytes));
  limits->set_max_sequences(static_cast<uint32_t>(attend.request.max_sequences));
  limits->set_max_sequence_tokens(static_cast<uint64_t>(attend.request.max_sequence_tokens));
  limits->set_max_heads(static_cast<uint32_t>(attend.request.max_heads));
  limits->set_max_queue_requests(static_cast<uint32_t>(facts.max_queue_requests));
  limits->set_max_inflight_bytes(static_cast<uint64_t>(environment.admission->budget().limits().bytes));
  limits->set_max_request_cost(static_cast<uint64_t>(attend.request.max_request_cost));
  limits->set_max_stream_calls(static_cast<uint32_t>(attend.max_stream_calls));
}

void FillOccupancy(const AttendEnvironment& environment, v1::Occupancy* occupancy) {
  const SchedulerGroup& scheduler = *environment.scheduler;
  occupancy->set_queue_requests(static_cast<uint32_t>(scheduler.queued_jobs() + scheduler.expected_jobs()));
  occupancy->set_queue_bytes(static_cast<uint64_t>(scheduler.queued_bytes() + scheduler.expected_bytes()));
  occupancy->set_inflight_bytes(static_cast<uint64_t>(environment.admission->budget().in_use()));
  occupancy->set_staging_bytes(environment.admission->staging().capacity());
  occupancy->set_staging_used_bytes(environment.admission->staging().in_use());
}

void FillRegions(const RegionHost& host, v1::Regions* regions) {
  const RegionQuota::Amount in_use = host.quota().in_use();
  regions->set_shared_memory(host.allows_shared_memory());
  regions->set_cuda_memory(host.allows_cuda_memory());
  regions->set_max_bytes(static_cast<uint64_t>(host.quota().most().bytes));
  regions->set_bytes(static_cast<uint64_t>(in_use.bytes));
  regions->set_max_regions(static_cast<uint32_t>(host.quota().most().regions));
  regions->set_regions(static_cast<uint32_t>(in_use.regions));
}

}  // namespace

ServerService::ServerService(ServerFacts facts, const AttendEnvironment& environment)
    : facts_(std::move(facts)), environment_(environment), started_(environment.clock->Now()) {}

v1::GetServerInfoResponse ServerService::Info() const {
  v1::GetServerInfoResponse info;
  info.set_version(facts_.version);
  info.set_revision(facts_.revision);
  info.set_backend(facts_.backend);
  for (v1::DeviceInfo& device : facts_.devices()) *info.add_devices() = std::move(device);
  FillLimits(environment_, facts_, info.mutable_limits());
  FillOccupancy(environment_, info.mutable_occupancy());
  FillRegions(*facts_.regions, info.mutable_regions());
  info.mutable_cache_profiles()->Add(facts_.cache_profiles.begin(), facts_.cache_profiles.end());
  info.set_uptime_seconds(absl::ToDoubleSeconds(environment_.clock->Now() - started_));
  return info;
}

grpc::ServerUnaryReactor* ServerService::GetServerInfo(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return AnswerNow<v1::GetServerInfoRequest>(
      RpcMethod::kGetServerInfo, environment_, context, *request, response,
      [this](const v1::GetServerInfoRequest&) { return absl::StatusOr<v1::GetServerInfoResponse>(Info()); });
}

grpc::ServerUnaryReactor* ServerService::PlanTiles(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return AnswerNow<v1::PlanTilesRequest>(RpcMethod::kPlanTiles, environment_, context, *request, response,
                                         &tessera::PlanTiles);
}

}  // namespace tessera
