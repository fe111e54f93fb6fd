// One batch at a time on a GPU: copies in, computes, copies out, on a stream of its own.
#ifndef TESSERA_SERVER_DEVICE_CUDA_CUDA_SLOT_H_
#define TESSERA_SERVER_DEVICE_CUDA_CUDA_SLOT_H_

#include <array>
#include <memory>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/attention.h"
#include "server/device/cuda/cuda_calls.h"
#include "server/device/cuda/device_memory.h"
#include "server/device/cuda/transfer_plan.h"
#include "server/device/device.h"

namespace tessera {

// Used by one thread at a time. While a batch is on the device, that thread sleeps. The streams of several slots run
// side by side, so one slot's copies overlap another's kernel.
class CudaSlot {
 public:
  // What the slots of a device share. All outlive the slots.
  struct Shared {
    int device;  // CUDA's number
    AttentionBackend* backend;
    DeviceMemory* memory;
    CudaCalls* calls;
  };

  static absl::StatusOr<std::unique_ptr<CudaSlot>> Create(const Shared& shared);
  CudaSlot(const CudaSlot&) = delete;
  CudaSlot& operator=(const CudaSlot&) = delete;
  ~CudaSlot();

  // As Device::Run. A request to stop is heeded until the batch has been handed to the device.
  BatchOutcome Run(const AttentionParams& params, absl::Span<const BatchItem> items, const std::stop_token& stop);

 private:
  // Where in the batch an event is recorded.
  enum Mark { kBegun, kCopiedIn, kComputed, kCopiedOut, kMarks };

  explicit CudaSlot(const Shared& shared) : shared_(shared) {}

  // Hands the whole batch to the stream; returns at once.
  absl::Status Enqueue(const AttentionParams& params, const TransferPlan& plan, std::byte* block, ForwardStats* stats);
  absl::Status CopyPieces(absl::Span<const TransferPlan::Piece> pieces, std::byte* block,
                          CudaCalls::Direction direction);
  absl::Status Record(Mark mark) { return shared_.calls->Record(events_[mark], stream_); }
  // Waits for everything that has been handed to the stream. An error means that the device is lost: one that has
  // survived a failure forgets it, one that has not answers every later call with it.
  absl::Status AwaitStream();
  absl::Status MeasureStages(const TransferPlan& plan, StageTimes* times) const;

  const Shared shared_;
  StreamHandle stream_ = nullptr;
  std::array<CudaCalls::Event, kMarks> events_ = {};
};

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_CUDA_CUDA_SLOT_H_
