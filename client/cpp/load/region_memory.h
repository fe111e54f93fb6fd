// Regions for the load tester: memory to fill with tensors, and to read answers from.
#ifndef TESSERA_CLIENT_CPP_LOAD_REGION_MEMORY_H_
#define TESSERA_CLIENT_CPP_LOAD_REGION_MEMORY_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cpp/load/cuda_driver.h"
#include "client/cpp/tessera/region_session.h"

namespace tessera::load {

enum class RegionKind { kNone, kSharedMemory, kCuda };

// Reading and writing are thread-safe.
class RegionMemory {
 public:
  // `driver` is null for shared memory, and outlives the memory of a GPU, which it takes.
  static absl::StatusOr<std::unique_ptr<RegionMemory>> Open(RegionSession* session, CudaDriver* driver, size_t bytes);
  RegionMemory(const RegionMemory&) = delete;
  RegionMemory& operator=(const RegionMemory&) = delete;
  // Closes the region. REQUIRES: not called from a callback of the session's.
  ~RegionMemory();

  // What calls name; of a GPU's memory, nothing to look at.
  absl::Span<std::byte> memory() const { return region_.memory(); }

  absl::Status Write(size_t offset, absl::Span<const std::byte> bytes);
  // REQUIRES: `from` lies in memory(), and `to` is as large.
  absl::Status Read(absl::Span<const std::byte> from, absl::Span<std::byte> to) const;

 private:
  RegionMemory(Region region, CudaDriver* driver) : region_(std::move(region)), driver_(driver) {}

  Region region_;
  CudaDriver* const driver_;
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_REGION_MEMORY_H_
