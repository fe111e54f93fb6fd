// The CPU as a device: tensors stay in staging memory, the backend runs on the calling thread and its own pool.
#ifndef TESSERA_SERVER_DEVICE_CPU_DEVICE_H_
#define TESSERA_SERVER_DEVICE_CPU_DEVICE_H_

#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/attention.h"
#include "server/clock/clock.h"
#include "server/device/device.h"

namespace tessera {

class CpuDevice final : public Device {
 public:
  // `staging_bytes` of address space; physical memory follows use. One slot keeps all cores on one batch; a second lets
  // small batches overtake a large one, at the cost of cache. The clock outlives the device. INVALID_ARGUMENT or
  // RESOURCE_EXHAUSTED where the staging memory cannot be had. REQUIRES: slots >= 1.
  static absl::StatusOr<std::unique_ptr<CpuDevice>> Make(std::unique_ptr<AttentionBackend> backend,
                                                         size_t staging_bytes, int slots, Clock* clock,
                                                         std::unique_ptr<PagedAttentionBackend> paged = nullptr);
  // On staging memory that it shares with other devices of one server. `paged`, of both, computes over pages; null: the
  // device keeps none. REQUIRES: slots >= 1.
  CpuDevice(int index, std::unique_ptr<AttentionBackend> backend, std::shared_ptr<StagingPool> staging, int slots,
            Clock* clock, std::unique_ptr<PagedAttentionBackend> paged = nullptr);

  DeviceInfo info() const override { return info_; }
  StagingPool& staging() override { return *staging_; }
  int64_t memory_in_use() const override { return 0; }
  // Never sticky: an error of the backend concerns the batch alone. Stops within milliseconds.
  BatchOutcome Run(int slot, const AttentionParams& params, absl::Span<const BatchItem> items,
                   const std::stop_token& stop) override;
  // Address space; physical memory follows use.
  absl::StatusOr<std::unique_ptr<StagingPool::Region>> TakePages(size_t bytes) override;
  absl::StatusOr<std::unique_ptr<StagingPool::Region>> TakeHostPages(size_t bytes) override { return TakePages(bytes); }
  // Stops within milliseconds.
  BatchOutcome Extend(int slot, const PagedParams& params, absl::Span<const ExtendItem> items,
                      const std::stop_token& stop) override;

  // Sequences that a slot keeps room for between batches; a longer list is given back when its batch ends.
  static constexpr size_t kKeptSequences = 4096;
  // Room kept now. REQUIRES: nothing runs on `slot`.
  size_t kept_sequences(int slot) const { return slot_sequences_[slot].capacity(); }

 private:
  const std::unique_ptr<AttentionBackend> backend_;
  const std::unique_ptr<PagedAttentionBackend> paged_;  // may be null
  Clock* const clock_;
  const DeviceInfo info_;
  const std::shared_ptr<StagingPool> staging_;
  std::vector<std::vector<SequenceView>> slot_sequences_;  // one list a slot
};

// "model name" of the first processor in a /proc/cpuinfo, or "CPU" where it names none.
std::string CpuName(const std::string& cpuinfo_path);

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_CPU_DEVICE_H_
