// What a decode load is sent to: a server's sequences, or an echo of the same bytes.
#ifndef TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_TARGET_H_
#define TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_TARGET_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/load/target.h"

namespace tessera::load {

// `tokens` rows of each of a group's sequences, from `position` on, in one layer.
struct StepRequest {
  int64_t layer = 0;
  int64_t position = 0;
  int64_t tokens = 1;
};

struct StepAnswer {
  absl::Status status;
  absl::Duration retry_after;  // with RESOURCE_EXHAUSTED: nothing has been done, and may be asked for again then
  ServerTiming timing;
};

using StepCallback = std::function<void(const StepAnswer&)>;

// Sequences that go in step. One step at a time.
class SequenceGroup {
 public:
  // Gives the sequences back. REQUIRES: no step is under way.
  virtual ~SequenceGroup() = default;

  // Appends the rows and attends to all that is there then. `done` runs once, on any thread, possibly before this
  // returns, and may start the next step, or have the group destroyed by another thread.
  virtual void Step(const StepRequest& step, StepCallback done) = 0;
};

// Thread-safe.
class DecodeTarget {
 public:
  // REQUIRES: its groups have gone.
  virtual ~DecodeTarget() = default;

  // Empty sequences; group `ordinal` of the run. Waits for the server.
  virtual absl::StatusOr<std::unique_ptr<SequenceGroup>> Open(uint64_t ordinal) = 0;

  // Whether a prefill means anything.
  virtual bool keeps_rows() const = 0;
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_DECODE_DECODE_TARGET_H_
