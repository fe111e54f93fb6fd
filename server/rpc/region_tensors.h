// Where the tensors of a call in regions lie: checked, so that nothing outside them is ever read or written.
#ifndef TESSERA_SERVER_RPC_REGION_TENSORS_H_
#define TESSERA_SERVER_RPC_REGION_TENSORS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "server/metrics/labels.h"
#include "server/region/region.h"
#include "server/request/attend_job.h"
#include "server/request/attend_shape.h"
#include "tessera/v1/region.pb.h"

namespace tessera {

// A stream's regions, by the ids that it knows them by.
using RegionTable = absl::flat_hash_map<uint64_t, std::shared_ptr<MemoryRegion>>;

// Every tensor begins at a multiple of this, in bytes: what the kernels ask for.
inline constexpr uint64_t kTensorAlignment = 16;

struct ResolvedTensors {
  TensorPlaces places;                                 // without a lease
  std::vector<std::shared_ptr<MemoryRegion>> regions;  // that they lie in, each at least once
  RegionMemory memory = RegionMemory::kSharedMemory;
  int device = -1;  // the only one that reaches them; -1: any
};

// NOT_FOUND for a region that is not in `regions`. INVALID_ARGUMENT, naming the field, for a size that is not the
// shape's, an offset that is not aligned, a tensor that reaches beyond its region, tensors in memories of different
// kinds or devices, and an output that overlaps another tensor.
absl::StatusOr<ResolvedTensors> ResolveTensors(const v1::AttendRegions& call, const AttendShape& shape,
                                               const RegionTable& regions);

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_REGION_TENSORS_H_
