#include "kernels/tile_planner.h"

#include <bit>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/attention.h"

namespace tessera {
namespace {

absl::Status Validate(const TileRequest& request) {
  if (request.sram_bytes < 1) {
    return absl::InvalidArgumentError(absl::StrCat("sram_bytes must be at least 1, got ", request.sram_bytes));
  }
  if (request.head_dim < kMinHeadDim || request.head_dim > kMaxHeadDim || request.head_dim % kHeadDimStep != 0) {
    return absl::InvalidArgumentError(absl::StrCat("head_dim must be ", kMinHeadDim, " to ", kMaxHeadDim,
                                                   " in steps of ", kHeadDimStep, ", got ", request.head_dim));
  }
  if (request.element_bytes != 1 && request.element_bytes != 2 && request.element_bytes != 4) {
    return absl::InvalidArgumentError(absl::StrCat("element_bytes must be 1, 2 or 4, got ", request.element_bytes));
  }
  if (request.stages < 1 || request.stages > kMaxStages) {
    return absl::InvalidArgumentError(absl::StrCat("stages must be 1 to ", kMaxStages, ", got ", request.stages));
  }
  return absl::OkStatus();
}

TilePlan Fill(const TileRequest& request, int tile) {
  const int64_t operand = int64_t{tile} * request.head_dim * request.element_bytes;
  const int64_t scores = int64_t{tile} * tile * request.element_bytes;
  const int64_t statistics = int64_t{tile} * 2 * static_cast<int64_t>(sizeof(float));
  TilePlan plan{.tile = tile,
                .components = {{{"Q", operand},
                                {"K", operand * request.stages},
                                {"V", operand * request.stages},
                                {"S", scores},
                                {"O", operand},
                                {"statistics", statistics}}}};
  for (const TileComponent& component : plan.components) plan.total_bytes += component.bytes;
  plan.fits = plan.total_bytes <= request.sram_bytes;
  return plan;
}

}  // namespace

absl::StatusOr<TilePlan> PlanTile(const TileRequest& request) {
  if (absl::Status status = Validate(request); !status.ok()) return status;
  int tile = kMaxTile;
  while (tile > kMinTile && !Fill(request, tile).fits) tile /= 2;
  return Fill(request, tile);
}

absl::StatusOr<TilePlan> PlanAtTile(const TileRequest& request, int tile) {
  if (absl::Status status = Validate(request); !status.ok()) return status;
  if (tile < kMinTile || tile > kMaxTile || !std::has_single_bit(static_cast<unsigned>(tile))) {
    return absl::InvalidArgumentError(
        absl::StrCat("tile must be a power of two from ", kMinTile, " to ", kMaxTile, ", got ", tile));
  }
  return Fill(request, tile);
}

}  // namespace tessera
