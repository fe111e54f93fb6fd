#include "server/rpc/plan_tiles.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/attention.h"
#include "kernels/tile_planner.h"
#include "kernels/traffic_model.h"
#include "server/rpc/attend_header.h"
#include "server/rpc/count.h"

namespace tessera {
absl::StatusOr<v1::PlanTilesResponse> PlanTiles(const v1::PlanTilesRequest& request) {
  TileRequest tile_request;
  if (request.sram_bytes() > 0) {
    tile_request.sram_bytes =
        static_cast<int64_t>(std::min<uint64_t>(request.sram_bytes(), std::numeric_limits<int64_t>::max()));
  }
  int32_t tile = 0;
  if (absl::Status status = ToCount("tile", request.tile(), &tile); !status.ok()) return status;
  if (request.head_dim() > 0) {
    if (absl::Status status = ToCount("head_dim", request.head_dim(), &tile_request.head_dim); !status.ok())
      return status;
  }
  if (request.stages() > 0) {
    if (absl::Status status = ToCount("stages", request.stages(), &tile_request.stages); !status.ok()) return status;
  }
  if (request.dtype() != v1::DATA_TYPE_UNSPECIFIED) {
    const absl::StatusOr<DType> dtype = ToDType(request.dtype());
    if (!dtype.ok()) return dtype.status();
    tile_request.element_bytes = SizeOf(*dtype);
  }
  const uint64_t n = request.sequence_length() == 0 ? 4096 : request.sequence_length();
  if (n > static_cast<uint64_t>(kMaxTrafficLength)) {
    return absl::InvalidArgumentError(absl::StrCat("sequence_length: ", n, " is above ", kMaxTrafficLength));
  }

  const absl::StatusOr<TilePlan> plan = tile == 0 ? PlanTile(tile_request) : PlanAtTile(tile_request, tile);
  if (!plan.ok()) return plan.status();

  v1::PlanTilesResponse response;
  response.set_tile(static_cast<uint32_t>(plan->tile));
  response.set_fits(plan->fits);
  response.set_total_bytes(static_cast<uint64_t>(plan->total_bytes));
  for (const TileComponent& component : plan->components) {
    v1::TileComponent& row = *response.add_components();
    row.set_name(std::string(component.name));
    row.set_bytes(static_cast<uint64_t>(component.bytes));
  }
  const auto length = static_cast<int64_t>(n);
  const TrafficTable table = ModelTraffic(length, plan->tile, tile_request.head_dim, tile_request.element_bytes);
  for (const TrafficRow& traffic : table.rows) {
    v1::TrafficRow& row = *response.add_traffic();
    row.set_operand(std::string(traffic.operand));
    row.set_standard_read_bytes(static_cast<uint64_t>(traffic.standard_read));
    row.set_standard_write_bytes(static_cast<uint64_t>(traffic.standard_write));
    row.set_tiled_read_bytes(static_cast<uint64_t>(traffic.tiled_read));
    row.set_tiled_write_bytes(static_cast<uint64_t>(traffic.tiled_write));
  }
  response.set_flops(ModelFlops(length, tile_request.head_dim));
  return response;
}

}  // namespace tessera
