#include "client/cpp/load/attend_messages.h"

#include <cstdint>

#include "absl/time/time.h"

namespace tessera::load {

v1::AttendHeader HeaderOf(const CallShape& shape, v1::Priority default_priority) {
  v1::AttendHeader header;
  header.set_dtype(shape.dtype);
  header.set_q_heads(static_cast<uint32_t>(shape.q_heads));
  header.set_kv_heads(static_cast<uint32_t>(shape.kv_heads));
  header.set_head_dim(static_cast<uint32_t>(shape.head_dim));
  for (int64_t i = 0; i < shape.sequences; ++i) {
    header.add_q_lengths(static_cast<uint32_t>(shape.q_length));
    if (shape.kv_length != shape.q_length) header.add_kv_lengths(static_cast<uint32_t>(shape.kv_length));
  }
  v1::AttentionOptions* const options = header.mutable_options();
  options->mutable_mask()->set_kind(shape.mask);
  if (shape.mask == v1::MASK_KIND_WINDOW) {
    options->mutable_mask()->set_window_left(shape.window_left);
    options->mutable_mask()->set_window_right(shape.window_right);
  }
  options->set_return_lse(shape.return_lse);
  options->set_priority(shape.priority != v1::PRIORITY_UNSPECIFIED ? shape.priority : default_priority);
  return header;
}

ServerTiming TimingOf(const v1::Timing& timing) {
  return {absl::Nanoseconds(timing.receive_ns()), absl::Nanoseconds(timing.queue_ns()),
          absl::Nanoseconds(timing.run_ns()), timing.batch_requests()};
}

}  // namespace tessera::load
