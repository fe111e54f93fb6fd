// One group of sequences from its prefill to its last token, a step at a time: what a model does that keeps its keys
// and values on a server.
#ifndef TESSERA_CLIENT_CPP_LOAD_DECODE_DECODER_H_
#define TESSERA_CLIENT_CPP_LOAD_DECODE_DECODER_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/load/decode/decode_shape.h"
#include "client/cpp/load/decode/decode_stats.h"
#include "client/cpp/load/decode/decode_target.h"
#include "client/cpp/load/load_clock.h"
#include "client/cpp/tessera/timer_queue.h"

namespace tessera::load {

// What all decoders of a run have in common. All of it outlives them.
struct DecoderContext {
  const DecodeShape* shape = nullptr;
  LoadClock* clock = nullptr;
  DecodeRecorder* recorder = nullptr;
  TimerQueue* timers = nullptr;
  absl::Duration patience;        // how long a step may be refused before it has failed
  std::function<bool()> stopped;  // whether to end before the last token; asked between tokens
};

// Layers are done one after the other, each when the one before has been answered, as their rows depend on one another.
class Decoder {
 public:
  // `on_end` runs once, with the status of the step that ended the group early; it may have the decoder destroyed by
  // another thread.
  using EndFn = std::function<void(Decoder*, const absl::Status&)>;

  // `due`: when the load wanted it to begin.
  Decoder(const DecoderContext* context, std::unique_ptr<SequenceGroup> group, int64_t prefill, int64_t steps,
          absl::Duration due, EndFn on_end);

  void Start();

 private:
  // Asks for the step that is next.
  void Issue();
  void OnAnswer(const StepAnswer& answer);
  void End(const absl::Status& status);
  // All layers have the same length: plans the next step. False where there is none.
  bool NextStep(absl::Duration now);

  const DecoderContext& context_;
  const std::unique_ptr<SequenceGroup> group_;
  const EndFn on_end_;
  int64_t prefill_left_;  // tokens
  int64_t steps_left_;
  StepRequest request_;
  absl::Duration begun_;
  absl::Duration sent_;           // the step's last try
  absl::Duration asked_;          // its first one
  absl::Duration token_sent_;     // the first layer's
  absl::Duration previous_done_;  // the token before; before the first one, when the sequence was due
  const int64_t prefill_;
  bool first_token_ = true;
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_DECODE_DECODER_H_
