// One round of a decode load against one target: when groups begin, and until when.
#ifndef TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_ROUND_H_
#define TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_ROUND_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/load/decode/decode_stats.h"
#include "client/cpp/load/decode/decode_target.h"
#include "client/cpp/load/decode/decoder.h"
#include "client/cpp/load/load_config.h"
#include "client/cpp/tessera/timer_queue.h"

namespace tessera::load {

// Groups are opened by the thread that calls Run, one after the other; their steps follow from answer to answer on the
// client library's threads. When the time is over, groups stop at the token that they are at.
class DecodeRound {
 public:
  // `name`: of the target, for the line of progress. What it is given outlives the round.
  DecodeRound(const LoadConfig& config, const DecodeShape& shape, std::string name, DecodeTarget* target,
              const std::atomic<bool>* interrupted);

  // Called once. `stats` is what was measured; the status, that of a round that was given up.
  absl::Status Run(DecodeStats* stats);

 private:
  // Both begin groups until the time is over.
  void RunClosed();
  void RunOpen();
  // Begins a group, or counts why it cannot.
  void Begin(absl::Duration due);
  // Waits for `until`, or for a group's end; at most kLook. Lets go of groups that have ended, and shows progress.
  void Wait(absl::Duration until);
  void OnEnd(Decoder* decoder, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts failures in a row that load does not explain.
  void Settle(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Over() const;
  int64_t active() const ABSL_LOCKS_EXCLUDED(mutex_);
  void ShowProgress(absl::Duration now);

  const LoadConfig& config_;
  const DecodeShape& shape_;
  const std::string name_;
  DecodeTarget* const target_;
  const std::atomic<bool>* const interrupted_;
  const absl::Duration start_;
  const absl::Duration from_;
  const absl::Duration until_;
  std::mt19937_64 random_;
  uint64_t begun_ = 0;
  int64_t begun_measured_ = 0;
  absl::Duration shown_;  // the last line of progress
  int64_t shown_tokens_ = 0;

  DecodeRecorder recorder_;
  TimerQueue timers_;
  DecoderContext context_;
  std::atomic<bool> gave_up_{false};
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Decoder*, std::unique_ptr<Decoder>> active_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Decoder>> ended_ ABSL_GUARDED_BY(mutex_);
  int64_t hopeless_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status last_failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_ROUND_H_
