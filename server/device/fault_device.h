// A device that fails on a script, for tests of everything around it.
#ifndef TESSERA_SERVER_DEVICE_FAULT_DEVICE_H_
#define TESSERA_SERVER_DEVICE_FAULT_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/clock/clock.h"
#include "server/device/device.h"
#include "server/device/fault_script.h"

namespace tessera {

// Passes everything on to the device it wraps, except where the script strikes. Batches are counted from 1 in the order
// of their Run calls, reruns included. It never alters a result, and stops no earlier than the device it wraps: a hang
// hangs on. Thread-safe.
class FaultDevice final : public Device {
 public:
  static constexpr absl::Duration kLongestWait = absl::Minutes(1);

  // The clock outlives the device. REQUIRES: the wrapped device's staging pool has not been used, and of all fault
  // devices that share it only this one has rules about it.
  FaultDevice(std::unique_ptr<Device> device, FaultScript script, Clock* clock);
  // Releases every hang and waits for the batches inside.
  ~FaultDevice() override;

  DeviceInfo info() const override { return device_->info(); }
  StagingPool& staging() override { return device_->staging(); }
  int64_t memory_in_use() const override { return device_->memory_in_use(); }
  int64_t launch_memory() const override { return device_->launch_memory(); }
  int64_t pinned_launch_memory() const override { return device_->pinned_launch_memory(); }
  RegionMapper* region_mapper() override { return device_->region_mapper(); }
  BatchOutcome Run(int slot, const AttentionParams& params, absl::Span<const BatchItem> items,
                   const std::stop_token& stop) override;
  absl::StatusOr<std::unique_ptr<StagingPool::Region>> TakePages(size_t bytes) override {
    return device_->TakePages(bytes);
  }
  absl::StatusOr<std::unique_ptr<StagingPool::Region>> TakeHostPages(size_t bytes) override {
    return device_->TakeHostPages(bytes);
  }
  // Counted among the batches, and struck, as Run is.
  BatchOutcome Extend(int slot, const PagedParams& params, absl::Span<const ExtendItem> items,
                      const std::stop_token& stop) override;

  // Waits, in real time, until the batch of this number has come. REQUIRES: it comes within kLongestWait.
  void AwaitBatch(int64_t batch);
  // Lets the hanging batch of this number go on, now or once it hangs; or all of them.
  void Release(int64_t batch);
  void ReleaseAll();

 private:
  const FaultRule* Find(FaultRule::Point point, int64_t ordinal) const;
  absl::Status OnAllocation();
  // Hangs or delays where the script says so; an outcome where the batch shall fail.
  std::optional<BatchOutcome> Strike(FaultRule::Point point, int64_t batch);
  void Hang(int64_t batch);
  // Runs the next batch by `run`, unless the script strikes.
  BatchOutcome RunBatch(absl::FunctionRef<BatchOutcome()> run);

  const std::unique_ptr<Device> device_;
  const FaultScript script_;
  Clock* const clock_;
  std::atomic<int64_t> allocations_{0};
  absl::Mutex mutex_;
  int64_t batches_ ABSL_GUARDED_BY(mutex_) = 0;
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
  bool all_released_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<int64_t> released_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_FAULT_DEVICE_H_
