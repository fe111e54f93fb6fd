#include "client/cpp/tessera/extend_operation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/tessera/resident_sequence.h"
#include "client/cpp/tessera/status_conversion.h"
#include "client/cpp/tessera/wire_timeout.h"
#include "proto/wire/attend_encode.h"
#include "proto/wire/slice_reader.h"

namespace tessera {
namespace {

// Of one call's tensors; leaves room for the header.
constexpr uint64_t kMaxPayloadBytes = wire::kMaxMessageBytes - (2 << 20);

absl::Status Refuse(size_t step, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("step ", step, ": ", what));
}

// Fills `entry` in, and adds up what the step's tensors take.
absl::Status MakeEntry(const ExtendCall& call, size_t i, v1::ExtendEntry* entry, uint64_t* payload_bytes) {
  const Step& step = call.steps[i];
  if (step.sequence == nullptr || step.sequence->handle().empty()) return Refuse(i, "has no sequence");
  const v1::CacheProfile& profile = step.sequence->profile();
  const uint64_t head_bytes = uint64_t{profile.head_dim()} * (profile.dtype() == v1::DATA_TYPE_FLOAT32 ? 4 : 2);
  const uint64_t q_row = call.q_heads * head_bytes;
  const uint64_t kv_row = profile.kv_heads() * head_bytes;
  if (q_row == 0 || kv_row == 0) return absl::InvalidArgumentError("q_heads is 0");
  if (step.q.size() % q_row != 0) {
    return Refuse(i, absl::StrCat("q has ", step.q.size(), " bytes, and must have a multiple of ", q_row));
  }
  if (step.k.size() % kv_row != 0) {
    return Refuse(i, absl::StrCat("k has ", step.k.size(), " bytes, and must have a multiple of ", kv_row));
  }
  if (step.v.size() != step.k.size()) {
    return Refuse(i, absl::StrCat("v has ", step.v.size(), " bytes, and must have as many as k: ", step.k.size()));
  }
  if (step.o.size() != step.q.size()) {
    return Refuse(i, absl::StrCat("o has ", step.o.size(), " bytes, and must have as many as q: ", step.q.size()));
  }
  const uint64_t tokens = step.q.size() / q_row;
  const uint64_t lse_bytes = call.options.return_lse() ? tokens * call.q_heads * sizeof(float) : 0;
  if (step.lse.size() != lse_bytes) {
    return Refuse(i, absl::StrCat("lse has ", step.lse.size(), " bytes, expected ", lse_bytes));
  }
  *payload_bytes += step.q.size() + step.k.size() + step.v.size();
  if (*payload_bytes > kMaxPayloadBytes) return Refuse(i, "makes the call larger than a message can be");
  entry->set_sequence(step.sequence->handle());
  entry->set_layer(step.layer);
  entry->set_q_tokens(static_cast<uint32_t>(tokens));
  entry->set_append_tokens(static_cast<uint32_t>(step.k.size() / kv_row));
  return absl::OkStatus();
}

// All q, then all k, then all v. Neighbours in memory become one.
RequestPayload::Tensors TensorsOf(const ExtendCall& call) {
  RequestPayload::Tensors tensors;
  for (const auto part : {&Step::q, &Step::k, &Step::v}) {
    for (const Step& step : call.steps) {
      const absl::Span<const std::byte> tensor = step.*part;
      if (tensor.empty()) continue;
      if (!tensors.empty() && tensors.back().data() + tensors.back().size() == tensor.data()) {
        tensors.back() = {tensors.back().data(), tensors.back().size() + tensor.size()};
      } else {
        tensors.push_back(tensor);
      }
    }
  }
  return tensors;
}

}  // namespace

absl::StatusOr<v1::ExtendHeader> MakeExtendHeader(const ExtendCall& call) {
  if (call.steps.empty()) return absl::InvalidArgumentError("there are no steps; must be at least 1");
  v1::ExtendHeader header;
  header.set_q_heads(call.q_heads);
  *header.mutable_options() = call.options;
  header.mutable_entries()->Reserve(static_cast<int>(call.steps.size()));
  uint64_t payload_bytes = 0;
  for (size_t i = 0; i < call.steps.size(); ++i) {
    if (absl::Status status = MakeEntry(call, i, header.add_entries(), &payload_bytes); !status.ok()) return status;
  }
  if (const size_t size = header.ByteSizeLong(); size > wire::SliceReader::kMaxSubmessageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header takes ", size, " bytes, above the limit of ", wire::SliceReader::kMaxSubmessageBytes));
  }
  return header;
}

ExtendOperation::ExtendOperation(const ExtendCall& call, v1::ExtendHeader header, absl::Time deadline,
                                 absl::Duration stall_timeout, TimerQueue* timers, ExtendCallback callback,
                                 std::function<void()> on_gone)
    : header_(std::move(header)),
      deadline_(deadline),
      stall_timeout_(stall_timeout),
      timers_(timers),
      payload_(TensorsOf(call)),
      callback_(std::move(callback)),
      on_gone_(std::move(on_gone)) {
  outputs_.reserve(call.steps.size());
  for (const Step& step : call.steps) {
    q_bytes_ += static_cast<int64_t>(step.q.size());
    kv_bytes_ += static_cast<int64_t>(step.k.size());
    lse_bytes_ += step.lse.size();
    outputs_.push_back({step.o, step.lse});
  }
}

grpc::ByteBuffer ExtendOperation::StreamMessage(uint64_t id) {
  v1::ExtendStreamRequest head;
  head.set_id(id);
  head.mutable_header()->Swap(&header_);
  head.set_timeout_us(MicrosecondsUntil(deadline_));
  return wire::EncodeExtendStreamRequest(head, payload_.Slices(0, q_bytes_), payload_.Slices(q_bytes_, kv_bytes_),
                                         payload_.Slices(q_bytes_ + kv_bytes_, kv_bytes_));
}

grpc::ByteBuffer ExtendOperation::UnaryMessage() {
  v1::ExtendRequest head;
  head.mutable_header()->Swap(&header_);
  return wire::EncodeExtendRequest(head, payload_.Slices(0, q_bytes_), payload_.Slices(q_bytes_, kv_bytes_),
                                   payload_.Slices(q_bytes_ + kv_bytes_, kv_bytes_));
}

void ExtendOperation::Carried(std::weak_ptr<ExtendCarrier> carrier, uint64_t id, bool deadline_watched) {
  absl::MutexLock lock(&mutex_);
  if (ended_) return;
  carrier_ = std::move(carrier);
  id_ = id;
  if (deadline_watched || deadline_ == absl::InfiniteFuture()) return;
  deadline_timer_ = timers_->Schedule(deadline_, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->OnDeadline();
  });
}

void ExtendOperation::Cancel() {
  std::shared_ptr<ExtendCarrier> carrier;
  uint64_t id = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (ended_ || cancelled_) return;
    cancelled_ = true;
    carrier = carrier_.lock();
    id = id_;
  }
  if (carrier != nullptr) carrier->Withdraw(id);
}

void ExtendOperation::OnDeadline() {
  std::shared_ptr<ExtendCarrier> carrier;
  uint64_t id = 0;
  {
    absl::MutexLock lock(&mutex_);
    carrier = carrier_.lock();
    id = id_;
  }
  End(absl::DeadlineExceededError("the deadline has passed"));
  if (carrier != nullptr) carrier->Withdraw(id);
}

absl::Status ExtendOperation::Take(const wire::DecodedExtendResponse& answer) const {
  if (!answer.result.has_value()) return absl::InternalError("the server's answer has no result");
  if (answer.result->lengths_size() != static_cast<int>(outputs_.size())) {
    return absl::InternalError(absl::StrCat("the server's answer has ", answer.result->lengths_size(), " lengths for ",
                                            outputs_.size(), " steps"));
  }
  if (answer.o.size() != static_cast<size_t>(q_bytes_) || answer.lse.size() != lse_bytes_) {
    return absl::InternalError(absl::StrCat("the server's answer has ", answer.o.size(), " + ", answer.lse.size(),
                                            " bytes of o and LSE, expected ", q_bytes_, " + ", lse_bytes_));
  }
  if (outputs_.size() == 1) {
    answer.o.CopyTo(outputs_[0].o.data());
    answer.lse.CopyTo(outputs_[0].lse.data());
    return absl::OkStatus();
  }
  size_t o_offset = 0;
  size_t lse_offset = 0;
  for (const Output& output : outputs_) {
    answer.o.Subrange(o_offset, output.o.size()).CopyTo(output.o.data());
    answer.lse.Subrange(lse_offset, output.lse.size()).CopyTo(output.lse.data());
    o_offset += output.o.size();
    lse_offset += output.lse.size();
  }
  return absl::OkStatus();
}

void ExtendOperation::OnAnswer(const wire::DecodedExtendResponse& answer) {
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    if (ended_) return;
    status = Take(answer);
  }
  if (!status.ok()) return End(std::move(status));
  ExtendReply reply;
  reply.result = *answer.result;
  End(std::move(reply));
}

void ExtendOperation::OnFailure(absl::Status status) {
  End(cancelled() ? std::move(status) : UnavailableIfCancelled(std::move(status)));
}

void ExtendOperation::OnLost(const absl::Status& status) {
  End(cancelled() ? absl::CancelledError(absl::StrCat("cancelled by the caller: ", status.message())) : status);
}

bool ExtendOperation::cancelled() {
  absl::MutexLock lock(&mutex_);
  return cancelled_;
}

void ExtendOperation::End(absl::StatusOr<ExtendReply> reply) {
  std::weak_ptr<ExtendCarrier> carrier;
  {
    absl::MutexLock lock(&mutex_);
    if (ended_) return;
    ended_ = true;
    carrier = carrier_;
    if (deadline_timer_.has_value()) timers_->Cancel(*deadline_timer_);
  }
  std::optional<TimerQueue::Timer> stall;
  if (payload_.aliases()) {
    stall = timers_->Schedule(absl::Now() + stall_timeout_, [carrier] {
      if (const std::shared_ptr<ExtendCarrier> held = carrier.lock()) held->GiveUp();
    });
  }
  payload_.Release(
      [self = shared_from_this(), stall, reply = std::move(reply)]() mutable {
        if (stall.has_value()) self->timers_->Cancel(*stall);
        std::exchange(self->callback_, nullptr)(std::move(reply));
        self->on_gone_();
      },
      timers_);
}

}  // namespace tessera
