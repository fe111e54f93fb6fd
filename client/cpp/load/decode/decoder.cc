#include "client/cpp/load/decode/decoder.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace tessera::load {

Decoder::Decoder(const DecoderContext* context, std::unique_ptr<SequenceGroup> group, int64_t prefill, int64_t steps,
                 absl::Duration due, EndFn on_end)
    : context_(*context),
      group_(std::move(group)),
      on_end_(std::move(on_end)),
      prefill_left_(prefill),
      steps_left_(steps),
      previous_done_(due),
      prefill_(prefill) {}

void Decoder::Start() {
  begun_ = asked_ = token_sent_ = context_.clock->Now();
  request_.tokens = prefill_left_ > 0 ? std::min(prefill_left_, context_.shape->chunk) : context_.shape->tokens;
  Issue();
}

void Decoder::Issue() {
  sent_ = context_.clock->Now();
  group_->Step(request_, [this](const StepAnswer& answer) { OnAnswer(answer); });
}

void Decoder::OnAnswer(const StepAnswer& answer) {
  const absl::Duration now = context_.clock->Now();
  const bool refused = absl::IsResourceExhausted(answer.status) && answer.retry_after > absl::ZeroDuration() &&
                       now + answer.retry_after - asked_ < context_.patience && !context_.stopped();
  context_.recorder->Step({.sent = sent_,
                           .finished = now,
                           .status = answer.status,
                           .refused = refused,
                           .prefill = prefill_left_ > 0,
                           .sequences = context_.shape->group,
                           .timing = answer.timing});
  if (refused) {
    context_.timers->Schedule(absl::Now() + answer.retry_after, [this] { Issue(); });
    return;
  }
  if (!answer.status.ok()) {
    context_.recorder->SequencesFailed(now, context_.shape->group, answer.status);
    return End(answer.status);
  }
  asked_ = now;
  if (++request_.layer == context_.shape->layers && !NextStep(now)) return End(absl::OkStatus());
  Issue();
}

void Decoder::End(const absl::Status& status) {
  const EndFn on_end = on_end_;  // the decoder may be gone before it returns
  on_end(this, status);
}

bool Decoder::NextStep(absl::Duration now) {
  request_.layer = 0;
  request_.position += request_.tokens;
  const int64_t group = context_.shape->group;
  if (prefill_left_ > 0) {
    prefill_left_ -= request_.tokens;
    if (prefill_left_ == 0) context_.recorder->PrefillDone(begun_, now, prefill_ * group);
  } else {
    context_.recorder->TokenDone(token_sent_, previous_done_, std::exchange(first_token_, false), now, group,
                                 request_.tokens);
    previous_done_ = now;
    if (--steps_left_ == 0) {
      context_.recorder->SequencesDone(now, group);
      return false;
    }
  }
  request_.tokens = prefill_left_ > 0 ? std::min(prefill_left_, context_.shape->chunk) : context_.shape->tokens;
  token_sent_ = now;
  return !context_.stopped();
}

}  // namespace tessera::load
