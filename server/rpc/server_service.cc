#include "server/rpc/server_service.h"

#include <utility>

#include "absl/status/statusor.h"
#include "server/rpc/plan_tiles.h"
#include "server/rpc/status.h"

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
  occupancy->set_queue_requests(static_cast<uint32_t>(environment.scheduler->queued_jobs()));
  occupancy->set_queue_bytes(static_cast<uint64_t>(environment.scheduler->queued_bytes()));
  occupancy->set_inflight_bytes(static_cast<uint64_t>(environment.admission->budget().in_use()));
  occupancy->set_staging_bytes(environment.admission->staging().capacity());
  occupancy->set_staging_used_bytes(environment.admission->staging().in_use());
}

// Ends a unary call that was answered on the spot, and counts it.
grpc::ServerUnaryReactor* FinishNow(RpcMethod method, const absl::Status& status, absl::Time started,
                                    const AttendEnvironment& environment, grpc::CallbackServerContext* context) {
  environment.observer->OnRpcStarted(method);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  environment.observer->OnRpcHandled(method, status.code(), environment.clock->Now() - started);
  return reactor;
}

}  // namespace

ServerService::ServerService(ServerFacts facts, const AttendEnvironment& environment)
    : facts_(std::move(facts)), environment_(environment), started_(environment.clock->Now()) {}

grpc::ServerUnaryReactor* ServerService::GetServerInfo(grpc::CallbackServerContext* context,
                                                       const v1::GetServerInfoRequest* /*request*/,
                                                       v1::GetServerInfoResponse* response) {
  const absl::Time now = environment_.clock->Now();
  response->set_version(facts_.version);
  response->set_revision(facts_.revision);
  response->set_backend(facts_.backend);
  for (v1::DeviceInfo& device : facts_.devices()) *response->add_devices() = std::move(device);
  FillLimits(environment_, facts_, response->mutable_limits());
  FillOccupancy(environment_, response->mutable_occupancy());
  response->set_uptime_seconds(absl::ToDoubleSeconds(now - started_));
  return FinishNow(RpcMethod::kGetServerInfo, absl::OkStatus(), now, environment_, context);
}

grpc::ServerUnaryReactor* ServerService::PlanTiles(grpc::CallbackServerContext* context,
                                                   const v1::PlanTilesRequest* request,
                                                   v1::PlanTilesResponse* response) {
  const absl::Time now = environment_.clock->Now();
  absl::StatusOr<v1::PlanTilesResponse> plan = tessera::PlanTiles(*request);
  if (plan.ok()) *response = *std::move(plan);
  return FinishNow(RpcMethod::kPlanTiles, plan.status(), now, environment_, context);
}

}  // namespace tessera
