// The tile planner and the traffic model as an RPC's answer.
#ifndef TESSERA_SERVER_RPC_PLAN_TILES_H_
#define TESSERA_SERVER_RPC_PLAN_TILES_H_

#include "absl/status/statusor.h"
#include "tessera/v1/server.pb.h"

namespace tessera {

// Zero fields take the defaults that the message names. INVALID_ARGUMENT naming the field.
absl::StatusOr<v1::PlanTilesResponse> PlanTiles(const v1::PlanTilesRequest& request);

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_PLAN_TILES_H_
