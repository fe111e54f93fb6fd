// One batch at a time on a GPU: copies in, computes, copies out, on a stream of its own.
#ifndef TESSERA_SERVER_DEVICE_CUDA_CUDA_SLOT_H_
#define TESSERA_SERVER_DEVICE_CUDA_CUDA_SLOT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/attention.h"
#include "kernels/paged_attention.h"
#include "server/device/cuda/cuda_calls.h"
#include "server/device/cuda/device_memory.h"
#include "server/device/cuda/extend_plan.h"
#include "server/device/cuda/pinned_region.h"
#include "server/device/cuda/transfer_plan.h"
#include "server/device/device.h"

namespace tessera {

// Used by one thread at a time. While a batch is on the device, that thread sleeps; steps on resident sequences are
// short, and it watches them for a while first. The streams of several slots run side by side, so one slot's copies
// overlap another's kernel. Nothing orders one slot's steps after another's: steps that touch the same pages must not
// be under way at the same time.
class CudaSlot {
 public:
  // What the slots of a device share. All outlive the slots.
  struct Shared {
    int device;  // CUDA's number
    AttentionBackend* backend;
    PagedAttentionBackend* paged;  // null: the device keeps no pages
    DeviceMemory* memory;
    CudaCalls* calls;
    int looks;  // CudaDeviceOptions::looks
  };

  static absl::StatusOr<std::unique_ptr<CudaSlot>> Create(const Shared& shared);
  CudaSlot(const CudaSlot&) = delete;
  CudaSlot& operator=(const CudaSlot&) = delete;
  ~CudaSlot();

  // Takes `bytes` of pinned memory for the tables of a batch's steps, in place of what there is. REQUIRES: no batch is
  // under way.
  absl::Status TakeTableMemory(size_t bytes);
  // Of it, what there is now. Any thread.
  int64_t table_bytes() const { return table_bytes_.load(std::memory_order_relaxed); }
  // As Device::Run and Device::Extend. A request to stop is heeded until the batch has been handed to the device.
  // REQUIRES, of Extend: table memory has been taken.
  BatchOutcome Run(const AttentionParams& params, absl::Span<const BatchItem> items, const std::stop_token& stop);
  BatchOutcome Extend(const PagedParams& params, absl::Span<const ExtendItem> items, const std::stop_token& stop);
  // Sets the device's memory to zero; done on return.
  absl::Status Clear(absl::Span<std::byte> memory);

 private:
  // Where in the batch an event is recorded.
  enum Mark { kBegun, kCopiedIn, kComputed, kCopiedOut, kMarks };

  explicit CudaSlot(const Shared& shared) : shared_(shared) {}

  // What Execute is told of a batch.
  struct Load {
    size_t items;
    size_t device_bytes;
    bool copies_in;   // whether there is anything to copy before the kernel,
    bool copies_out;  // and after it
    int looks;
  };

  // Gets the device memory that the batch takes, hands it to the stream by `enqueue`, and waits for it.
  BatchOutcome Execute(const Load& load, const std::stop_token& stop,
                       absl::FunctionRef<absl::Status(std::byte* block, ForwardStats* stats)> enqueue);

  // Both hand the whole batch to the stream and return at once.
  absl::Status EnqueueRun(const AttentionParams& params, const TransferPlan& plan, std::byte* block,
                          ForwardStats* stats);
  absl::Status EnqueueExtend(const PagedParams& params, const ExtendPlan& plan, std::byte* block, ForwardStats* stats);

  absl::Status CopyPieces(absl::Span<const TransferPlan::Piece> pieces, std::byte* block,
                          CudaCalls::Direction direction);
  // Nothing where there are no pieces.
  absl::Status Move(absl::Span<const CudaCopy> pieces);
  absl::Status Record(Mark mark) { return shared_.calls->Record(events_[mark], stream_); }
  // Waits for everything that has been handed to the stream; looks so many times before it sleeps. An error means that
  // the device is lost: one that has survived a failure forgets it, one that has not answers every later call with it.
  absl::Status AwaitStream(int looks);
  absl::Status MeasureStages(const Load& load, StageTimes* times) const;

  const Shared shared_;
  StreamHandle stream_ = nullptr;
  std::array<CudaCalls::Event, kMarks> events_ = {};
  // Of its own, for payloads may fill staging memory, and a step that has been admitted is to run nevertheless. It
  // grows where a batch needs more than any before.
  std::unique_ptr<PinnedRegion> table_memory_;
  std::atomic<int64_t> table_bytes_ = 0;  // its size
};

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_CUDA_CUDA_SLOT_H_
