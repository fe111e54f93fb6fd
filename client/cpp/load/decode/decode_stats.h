// What a decode run measured, and how it is gathered.
#ifndef TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_STATS_H_
#define TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_STATS_H_

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/load/histogram.h"
#include "client/cpp/load/target.h"

namespace tessera::load {

// Of what *ended* within the measured window. Histograms are in nanoseconds except batch_requests.
struct DecodeStats {
  absl::Duration window;
  int64_t sequences = 0;          // that went to their end
  int64_t failed_sequences = 0;   // that a failed step, or a failed creation, ended
  int64_t dropped_sequences = 0;  // never begun: the client's bound was reached
  int64_t prefill_tokens = 0;     // of all sequences
  int64_t tokens = 0;             // decoded, of all sequences
  int64_t layer_steps = 0;        // decode steps of one sequence in one layer
  int64_t ok_steps = 0;           // calls, those of the prefill included
  int64_t refused_steps = 0;      // that were asked for again, as the server said
  int64_t failed_steps = 0;
  std::map<absl::StatusCode, int64_t> errors;  // of failed steps and creations

  Histogram token_time;   // a decode step in all layers, from the first one's sending to the last one's answer
  Histogram inter_token;  // from one decode step's end to the next one's
  Histogram first_token;  // from when the sequence was due to the end of its first decode step
  Histogram prefill;      // from the sequence's creation to the end of its prefill
  Histogram step;         // a decode step in one layer; with refusals, of the last try
  // The server's account of these, and the rest: client, wire, answer.
  Histogram receive;
  Histogram queue;
  Histogram run;
  Histogram elsewhere;
  Histogram batch_requests;

  int64_t steps() const { return ok_steps + refused_steps + failed_steps; }
  double failed_fraction() const {
    return steps() == 0 ? 0 : static_cast<double>(failed_steps) / static_cast<double>(steps());
  }
  double PerSecond(int64_t count) const {
    return window > absl::ZeroDuration() ? static_cast<double>(count) / absl::ToDoubleSeconds(window) : 0;
  }

  // Adds a later round of the same load.
  void AppendRound(const DecodeStats& round);
};

// A decode step of one layer that has ended, or a call of the prefill.
struct StepSample {
  absl::Duration sent;
  absl::Duration finished;
  absl::Status status;
  bool refused = false;  // it will be asked for again
  bool prefill = false;
  int64_t sequences = 1;
  ServerTiming timing;
};

// Thread-safe. Times are the load clock's.
class DecodeRecorder {
 public:
  // Measures from `from` to `until`.
  DecodeRecorder(absl::Duration from, absl::Duration until) : from_(from), until_(until) {}

  void Step(const StepSample& sample);
  // `tokens` of all sequences.
  void PrefillDone(absl::Duration begun, absl::Duration now, int64_t tokens);
  // All layers of `tokens` tokens of each of `sequences`. `previous`: the step before; the sequence's due time where it
  // is the first.
  void TokenDone(absl::Duration sent, absl::Duration previous, bool first, absl::Duration now, int64_t sequences,
                 int64_t tokens);
  void SequencesDone(absl::Duration now, int64_t sequences);
  void SequencesFailed(absl::Duration now, int64_t sequences, const absl::Status& status);
  void SequencesDropped(absl::Duration due, int64_t sequences);

  // What the window has seen, as if it ended now where it has not. `tokens` so far, for a line of progress.
  DecodeStats Take(absl::Duration now);
  int64_t tokens();

 private:
  bool Measured(absl::Duration at) const { return at >= from_ && at < until_; }

  const absl::Duration from_;
  const absl::Duration until_;
  absl::Mutex mutex_;
  DecodeStats stats_ ABSL_GUARDED_BY(mutex_);
  int64_t all_tokens_ ABSL_GUARDED_BY(mutex_) = 0;  // those of the warm-up, too
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_STATS_H_
