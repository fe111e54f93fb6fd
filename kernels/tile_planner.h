// On-chip memory of a tiled attention kernel, and the tile that fits into it.
//
// A tile is B rows of Q against B keys. On chip lie Q, O (B x d), `stages` buffers of K and of V (B x d each), the
// scores S (B x B), and two float statistics for each row (running maximum and sum). With 2-byte elements and one stage
// this is 2 (4 B d + B^2) + 8 B bytes: 161 KiB at B = d = 128.
#ifndef TESSERA_KERNELS_TILE_PLANNER_H_
#define TESSERA_KERNELS_TILE_PLANNER_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera {

inline constexpr int kMinTile = 16;
inline constexpr int kMaxTile = 256;
inline constexpr int kMaxStages = 8;

struct TileRequest {
  int64_t sram_bytes = int64_t{192} * 1024;
  int head_dim = 128;
  int64_t element_bytes = 2;  // 1, 2 or 4
  int stages = 1;             // buffers of K and V each
};

struct TileComponent {
  absl::string_view name;  // "Q", "K", "V", "S", "O", "statistics"
  int64_t bytes = 0;
};

struct TilePlan {
  int tile = 0;       // B
  bool fits = false;  // total_bytes <= sram_bytes
  std::array<TileComponent, 6> components;
  int64_t total_bytes = 0;
};

// The largest power of two from kMinTile to kMaxTile that fits; kMinTile with fits == false where none does.
// INVALID_ARGUMENT naming the field for sram_bytes below 1, a head_dim that no kernel takes, another element size, or
// stages out of 1..kMaxStages.
absl::StatusOr<TilePlan> PlanTile(const TileRequest& request);

// The plan at a given tile. INVALID_ARGUMENT as above, or where `tile` is not a power of two in the range.
absl::StatusOr<TilePlan> PlanAtTile(const TileRequest& request, int tile);

}  // namespace tessera

#endif  // TESSERA_KERNELS_TILE_PLANNER_H_
