#include "server/device/cuda/cuda_slot.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/device/cuda/step_tables.h"

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

absl::Status CudaSlot::TakeTableMemory(size_t bytes) {
  absl::Status status = shared_.calls->SelectDevice(shared_.device);
  if (!status.ok()) return status;
  absl::StatusOr<std::unique_ptr<PinnedRegion>> memory = PinnedRegion::Allocate(bytes, shared_.calls);
  if (!memory.ok()) return memory.status();
  table_memory_ = *std::move(memory);
  table_bytes_.store(static_cast<int64_t>(table_memory_->size()), std::memory_order_relaxed);
  return absl::OkStatus();
}

BatchOutcome CudaSlot::Run(const AttentionParams& params, absl::Span<const BatchItem> items,
                           const std::stop_token& stop) {
  const TransferPlan plan(items);
  const Load load = {.items = items.size(),
                     .device_bytes = plan.device_bytes(),
                     .copies_in = !plan.inputs().empty(),
                     .copies_out = !plan.outputs().empty(),
                     .looks = 0};
  return Execute(load, stop,
                 [&](std::byte* block, ForwardStats* stats) { return EnqueueRun(params, plan, block, stats); });
}

BatchOutcome CudaSlot::Extend(const PagedParams& params, absl::Span<const ExtendItem> items,
                              const std::stop_token& stop) {
  const StepTables tables(params, items);
  if (const size_t room = table_memory_->size(); tables.bytes() > room) {
    if (absl::Status taken = TakeTableMemory(std::max(tables.bytes(), 2 * room)); !taken.ok()) {
      shared_.calls->ForgetError();
      BatchOutcome outcome;
      outcome.status = std::move(taken);
      return outcome;
    }
  }
  tables.WriteTo(table_memory_->data());
  const ExtendPlan plan(items, tables, {table_memory_->data(), tables.bytes()});
  const Load load = {.items = items.size(),
                     .device_bytes = plan.transfers().device_bytes(),
                     .copies_in = plan.copies_in(),
                     .copies_out = plan.copies_out(),
                     .looks = shared_.looks};
  return Execute(load, stop,
                 [&](std::byte* block, ForwardStats* stats) { return EnqueueExtend(params, plan, block, stats); });
}

absl::Status CudaSlot::Clear(absl::Span<std::byte> memory) {
  absl::Status status = shared_.calls->SelectDevice(shared_.device);
  if (status.ok()) status = Move({{.to = memory.data(), .from = nullptr, .bytes = memory.size()}});
  if (!status.ok()) shared_.calls->ForgetError();
  status.Update(AwaitStream(/*looks=*/0));
  return status;
}

BatchOutcome CudaSlot::Execute(const Load& load, const std::stop_token& stop,
                               absl::FunctionRef<absl::Status(std::byte* block, ForwardStats* stats)> enqueue) {
  BatchOutcome outcome;
  const absl::StatusOr<DeviceMemory::Block> block = shared_.memory->Allocate(load.device_bytes);
  if (!block.ok()) {
    // What is too much together may fit one by one.
    outcome.status = load.items > 1 ? absl::ResourceExhaustedError(block.status().message()) : block.status();
    return outcome;
  }
  if (stop.stop_requested()) {
    outcome.status = absl::CancelledError("nobody waits for the batch any more");
    return outcome;
  }
  outcome.status = shared_.calls->SelectDevice(shared_.device);
  if (outcome.status.ok()) outcome.status = enqueue(block->data(), &outcome.stats);
  if (!outcome.status.ok()) shared_.calls->ForgetError();
  // Also after an error: what has been enqueued until then still uses the batch's memory.
  if (absl::Status waited = AwaitStream(load.looks); !waited.ok()) {
    outcome.status = std::move(waited);
    outcome.sticky = true;
    return outcome;
  }
  if (outcome.status.ok()) outcome.status = MeasureStages(load, &outcome.times);
  return outcome;
}

absl::Status CudaSlot::EnqueueRun(const AttentionParams& params, const TransferPlan& plan, std::byte* block,
                                  ForwardStats* stats) {
  absl::Status status = Record(kBegun);
  if (status.ok()) status = CopyPieces(plan.inputs(), block, CudaCalls::Direction::kToDevice);
  if (status.ok()) status = Record(kCopiedIn);
  if (status.ok()) status = shared_.backend->Forward(params, plan.Views(block), stream_, stats);
  if (status.ok()) status = Record(kComputed);
  if (status.ok()) status = CopyPieces(plan.outputs(), block, CudaCalls::Direction::kToHost);
  return status;
}

absl::Status CudaSlot::EnqueueExtend(const PagedParams& params, const ExtendPlan& plan, std::byte* block,
                                     ForwardStats* stats) {
  absl::Status status = Record(kBegun);
  if (status.ok()) status = Move(plan.Fills());
  // Pages are large: the copy engine moves them as fast as the bus does, and leaves the processors to other slots.
  if (status.ok()) status = shared_.calls->Copy(plan.PagesFromHost(), CudaCalls::Direction::kToDevice, stream_);
  if (status.ok()) status = Move(plan.CopiesAndInputs(block));
  if (status.ok()) status = Record(kCopiedIn);
  if (status.ok()) status = shared_.paged->Extend(params, plan.Views(block), stream_, stats);
  if (status.ok()) status = Record(kComputed);
  if (status.ok()) status = Move(plan.Outputs(block));
  if (status.ok()) status = shared_.calls->Copy(plan.PagesToHost(), CudaCalls::Direction::kToHost, stream_);
  return status;
}

absl::Status CudaSlot::Move(absl::Span<const CudaCopy> pieces) {
  return pieces.empty() ? absl::OkStatus() : shared_.calls->Move(pieces, stream_);
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

absl::Status CudaSlot::AwaitStream(int looks) {
  absl::Status status = shared_.calls->SelectDevice(shared_.device);
  if (status.ok()) status = Record(kCopiedOut);
  for (int look = 0; status.ok() && look < looks; ++look) {
    const absl::StatusOr<bool> reached = shared_.calls->Reached(events_[kCopiedOut]);
    if (!reached.ok()) return reached.status();
    if (*reached) return absl::OkStatus();
  }
  if (status.ok()) status = shared_.calls->Await(events_[kCopiedOut]);
  return status;
}

absl::Status CudaSlot::MeasureStages(const Load& load, StageTimes* times) const {
  const struct {
    bool present;
    Mark from;
    Mark to;
    absl::Duration* time;
  } stages[] = {
      {load.copies_in, kBegun, kCopiedIn, &times->copy_in},
      {true, kCopiedIn, kComputed, &times->compute},
      {load.copies_out, kComputed, kCopiedOut, &times->copy_out},
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
