// Which token and head a row of a tile is, and which keys it sees.
#ifndef TESSERA_KERNELS_CUDA_SM90_ROW_PLACE_H_
#define TESSERA_KERNELS_CUDA_SM90_ROW_PLACE_H_

#include <cstdint>

#include "kernels/cuda/key_range.h"
#include "kernels/cuda/sm90/traits.h"

namespace tessera::cuda::sm90 {

struct RowPlace {
  int32_t token;  // of a row that does not exist: the last one
  int32_t q_head;
  bool exists;  // inside the tile and the sequence
};

// row: 0 .. kTileRows - 1.
__device__ __forceinline__ RowPlace PlaceRow(const TileInfo& info, int row) {
  const int32_t group = info.shape.group;
  const int32_t row_in_unit = row % kRowUnit;
  const int32_t token_in_unit = group == 1 ? row_in_unit : row_in_unit / group;
  const int32_t token = info.first_token + row / kRowUnit * info.shape.tokens_per_unit + token_in_unit;
  const bool exists = token_in_unit < info.shape.tokens_per_unit && token < info.shape.q_len;
  return {exists ? token : info.shape.q_len - 1, info.head * group + row_in_unit - token_in_unit * group, exists};
}

__device__ __forceinline__ KeyRange KeysOfRow(const TileInfo& info, int row, const ForwardLaunch& launch) {
  return VisibleKeys(PlaceRow(info, row).token, info.shape.q_len, info.shape.kv_len, launch.left, launch.right);
}

}  // namespace tessera::cuda::sm90

#endif  // TESSERA_KERNELS_CUDA_SM90_ROW_PLACE_H_
