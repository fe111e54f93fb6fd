// Decodes on an echo server: the bytes of each step and of its answer, and nothing else.
#ifndef TESSERA_CLIENT_CPP_LOAD_DECODE_ECHO_STEPS_H_
#define TESSERA_CLIENT_CPP_LOAD_DECODE_ECHO_STEPS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/load/call_shape.h"
#include "client/cpp/load/decode/decode_target.h"
#include "client/cpp/load/echo_target.h"
#include "client/cpp/load/payload_pool.h"

namespace tessera::load {

// Every step is of one size. Thread-safe.
class EchoSteps : public DecodeTarget {
 public:
  // `step` has the bytes of one layer's step of a whole group.
  EchoSteps(const EchoOptions& options, const CallShape& step, uint64_t seed);

  // As EchoTarget's.
  absl::Status AwaitConnected() { return echo_.AwaitConnected(); }

  absl::StatusOr<std::unique_ptr<SequenceGroup>> Open(uint64_t ordinal) override;
  bool keeps_rows() const override { return false; }

 private:
  class Group;

  const std::vector<CallShape> shapes_;  // the one
  const PayloadPool payloads_;
  EchoTarget echo_;
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_DECODE_ECHO_STEPS_H_
