// Resident sequences and calls on them, for programs that run a device without a server around it.
#ifndef TESSERA_TESTS_GPU_RESIDENT_CALLS_H_
#define TESSERA_TESTS_GPU_RESIDENT_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/attention.h"
#include "server/device/device.h"
#include "server/request/cache_profile.h"
#include "server/request/device_job.h"
#include "server/request/extend_job.h"
#include "server/request/extend_shape.h"
#include "server/request/resident_cache.h"

namespace tessera::testing {

class ResidentCalls {
 public:
  // Takes the profile's pages from the device, which must have them, and the host's. The device outlives it.
  ResidentCalls(const CacheProfile& profile, Device* device);

  Device& device() const { return *device_; }
  SequenceCache& sequences() { return cache_->sequences(); }

  // A call with random rows, the same for equal seeds, and poisoned outputs, o and then LSE. Refused as the cache
  // refuses its step. REQUIRES: a valid shape, and room in staging memory.
  absl::StatusOr<std::shared_ptr<ExtendJob>> Make(const std::string& tenant, const AttentionParams& params,
                                                  std::vector<ExtendEntry> entries, uint64_t seed);

  // Runs the calls as a batch of `slot`. They may be run again until Commit.
  BatchOutcome Run(int slot, absl::Span<const DeviceJobPtr> calls);
  static void Commit(absl::Span<const DeviceJobPtr> calls);
  // Moves pages of idle sequences to the host as a batch of `slot`, and commits that: `pages` or as many as can.
  BatchOutcome Spill(int slot, int64_t pages);

 private:
  const CacheProfile profile_;
  Device* const device_;
  const ResidentCachePtr cache_;
};

std::vector<std::vector<std::byte>> OutputsOf(absl::Span<const DeviceJobPtr> calls);
void PoisonOutputs(absl::Span<const DeviceJobPtr> calls);

// Causal, of the profile's type, with `group` query heads a key head.
AttentionParams ParamsFor(const CacheProfile& profile, int32_t group);

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_GPU_RESIDENT_CALLS_H_
