#include "server/device/cuda/cuda_slot.h"

#include <utility>
#include <vector>

namespace tessera {

absl::StatusOr<std::unique_ptr<CudaSlot>> CudaSlot::Create(const Shared& shared) {
  if (absl::Status selected = shared.calls->SelectDevice(shared.device); !selected.ok()) return selected;
  std::unique_ptr<CudaSlot> slot(new CudaSlot(shared));
  absl::StatusOr<StreamHandle> stream = shared.calls->CreateStream();
  if (!stream.ok()) return stream.status();
  slot->stream_ = *stream;
  for (CudaCalls::Event& event : slot->events_) {
    absl::StatusOr<CudaCalls::Event> created = shared.calls->CreateEvent();
    if (!created.ok()) return created.status();
    event = *created;
  }
  return slot;
}

CudaSlot::~CudaSlot() {
  if (!shared_.calls->SelectDevice(shared_.device).ok()) return;
  for (const CudaCalls::Event event : events_) {
    if (event != nullptr) shared_.calls->DestroyEvent(event);
  }
  if (stream_ != nullptr) shared_.calls->DestroyStream(stream_);
}

BatchOutcome CudaSlot::Run(const AttentionParams& params, absl::Span<const BatchItem> items,
                           const std::stop_token& stop) {
  BatchOutcome outcome;
  const TransferPlan plan(items);
  const absl::StatusOr<DeviceMemory::Block> block = shared_.memory->Allocate(plan.device_bytes());
  if (!block.ok()) {
    // What is too much together may fit one by one.
    outcome.status = items.size() > 1 ? absl::ResourceExhaustedError(block.status().message()) : block.status();
    return outcome;
  }
  if (stop.stop_requested()) {
    outcome.status = absl::CancelledError("nobody waits for the batch any more");
    return outcome;
  }
  outcome.status = Enqueue(params, plan, block->data(), &outcome.stats);
  if (!outcome.status.ok()) shared_.calls->ForgetError();
  // Also after an error: what has been enqueued until then still uses the batch's memory.
  if (absl::Status waited = AwaitStream(); !waited.ok()) {
    outcome.status = std::move(waited);
    outcome.sticky = true;
    return outcome;
  }
  if (outcome.status.ok()) outcome.status = MeasureStages(plan, &outcome.times);
  return outcome;
}

absl::Status CudaSlot::Enqueue(const AttentionParams& params, const TransferPlan& plan, std::byte* block,
                               ForwardStats* stats) {
  absl::Status status = shared_.calls->SelectDevice(shared_.device);
  if (status.ok()) status = Record(kBegun);
  if (status.ok()) status = CopyPieces(plan.inputs(), block, CudaCalls::Direction::kToDevice);
  if (status.ok()) status = Record(kCopiedIn);
  if (status.ok()) status = shared_.backend->Forward(params, plan.Views(block), stream_, stats);
  if (status.ok()) status = Record(kComputed);
  if (status.ok()) status = CopyPieces(plan.outputs(), block, CudaCalls::Direction::kToHost);
  return status;
}

absl::Status CudaSlot::CopyPieces(absl::Span<const TransferPlan::Piece> pieces, std::byte* block,
                                  CudaCalls::Direction direction) {
  std::vector<CudaCopy> copies;
  copies.reserve(pieces.size());
  for (const TransferPlan::Piece& piece : pieces) {
    std::byte* const device = block + piece.offset;
    copies.push_back(direction == CudaCalls::Direction::kToDevice
                         ? CudaCopy{.to = device, .from = piece.host, .bytes = piece.bytes}
                         : CudaCopy{.to = piece.host, .from = device, .bytes = piece.bytes});
  }
  return shared_.calls->Copy(copies, direction, stream_);
}

absl::Status CudaSlot::AwaitStream() {
  absl::Status status = shared_.calls->SelectDevice(shared_.device);
  if (status.ok()) status = Record(kCopiedOut);
  if (status.ok()) status = shared_.calls->Await(events_[kCopiedOut]);
  return status;
}

absl::Status CudaSlot::MeasureStages(const TransferPlan& plan, StageTimes* times) const {
  const struct {
    bool present;
    Mark from;
    Mark to;
    absl::Duration* time;
  } stages[] = {
      {!plan.inputs().empty(), kBegun, kCopiedIn, &times->copy_in},
      {true, kCopiedIn, kComputed, &times->compute},
      {!plan.outputs().empty(), kComputed, kCopiedOut, &times->copy_out},
  };
  for (const auto& stage : stages) {
    if (!stage.present) continue;
    const absl::StatusOr<absl::Duration> time = shared_.calls->Elapsed(events_[stage.from], events_[stage.to]);
    if (!time.ok()) return time.status();
    *stage.time = *time;
  }
  return absl::OkStatus();
}

}  // namespace tessera
