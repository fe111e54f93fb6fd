#include "client/cpp/load/decode/decode_stats.h"

#include <algorithm>
#include <utility>

namespace tessera::load {
namespace {

void Record(absl::Duration duration, Histogram* histogram) { histogram->Record(absl::ToInt64Nanoseconds(duration)); }

}  // namespace

void DecodeStats::AppendRound(const DecodeStats& round) {
  window += round.window;
  for (const auto member : {&DecodeStats::sequences, &DecodeStats::failed_sequences, &DecodeStats::dropped_sequences,
                            &DecodeStats::prefill_tokens, &DecodeStats::tokens, &DecodeStats::layer_steps,
                            &DecodeStats::ok_steps, &DecodeStats::refused_steps, &DecodeStats::failed_steps}) {
    this->*member += round.*member;
  }
  for (const auto& [code, count] : round.errors) errors[code] += count;
  for (const auto member : {&DecodeStats::token_time, &DecodeStats::inter_token, &DecodeStats::first_token,
                            &DecodeStats::prefill, &DecodeStats::step, &DecodeStats::receive, &DecodeStats::queue,
                            &DecodeStats::run, &DecodeStats::elsewhere, &DecodeStats::batch_requests}) {
    (this->*member).Merge(round.*member);
  }
}

void DecodeRecorder::Step(const StepSample& sample) {
  if (!Measured(sample.finished)) return;
  absl::MutexLock lock(&mutex_);
  if (sample.refused) {
    ++stats_.refused_steps;
    return;
  }
  if (!sample.status.ok()) {
    ++stats_.failed_steps;
    return;
  }
  ++stats_.ok_steps;
  if (sample.prefill) return;
  stats_.layer_steps += sample.sequences;
  const absl::Duration took = sample.finished - sample.sent;
  Record(took, &stats_.step);
  const ServerTiming& timing = sample.timing;
  if (!timing.known()) return;
  Record(timing.receive, &stats_.receive);
  Record(timing.queue, &stats_.queue);
  Record(timing.run, &stats_.run);
  Record(took - timing.receive - timing.queue - timing.run, &stats_.elsewhere);
  stats_.batch_requests.Record(timing.batch_requests);
}

void DecodeRecorder::PrefillDone(absl::Duration begun, absl::Duration now, int64_t tokens) {
  if (!Measured(now)) return;
  absl::MutexLock lock(&mutex_);
  stats_.prefill_tokens += tokens;
  Record(now - begun, &stats_.prefill);
}

void DecodeRecorder::TokenDone(absl::Duration sent, absl::Duration previous, bool first, absl::Duration now,
                               int64_t sequences, int64_t tokens) {
  absl::MutexLock lock(&mutex_);
  all_tokens_ += sequences * tokens;
  if (!Measured(now)) return;
  stats_.tokens += sequences * tokens;
  Record(now - sent, &stats_.token_time);
  Record(now - previous, first ? &stats_.first_token : &stats_.inter_token);
}

void DecodeRecorder::SequencesDone(absl::Duration now, int64_t sequences) {
  if (!Measured(now)) return;
  absl::MutexLock lock(&mutex_);
  stats_.sequences += sequences;
}

void DecodeRecorder::SequencesFailed(absl::Duration now, int64_t sequences, const absl::Status& status) {
  if (!Measured(now)) return;
  absl::MutexLock lock(&mutex_);
  stats_.failed_sequences += sequences;
  ++stats_.errors[status.code()];
}

void DecodeRecorder::SequencesDropped(absl::Duration due, int64_t sequences) {
  if (!Measured(due)) return;
  absl::MutexLock lock(&mutex_);
  stats_.dropped_sequences += sequences;
}

DecodeStats DecodeRecorder::Take(absl::Duration now) {
  absl::MutexLock lock(&mutex_);
  stats_.window = std::max(std::min(until_, now) - from_, absl::ZeroDuration());
  return std::exchange(stats_, {});
}

int64_t DecodeRecorder::tokens() {
  absl::MutexLock lock(&mutex_);
  return all_tokens_;
}

}  // namespace tessera::load
