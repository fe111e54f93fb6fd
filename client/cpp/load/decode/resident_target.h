// Decodes on a Tessera server's resident sequences, through the client library.
#ifndef TESSERA_CLIENT_CPP_LOAD_DECODE_RESIDENT_TARGET_H_
#define TESSERA_CLIENT_CPP_LOAD_DECODE_RESIDENT_TARGET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/load/answer_check.h"
#include "client/cpp/load/call_shape.h"
#include "client/cpp/load/decode/decode_shape.h"
#include "client/cpp/load/decode/decode_target.h"
#include "client/cpp/load/decode/row_bank.h"
#include "client/cpp/load/decode/step_sampler.h"
#include "client/cpp/load/tessera_target.h"
#include "client/cpp/tessera/sequence_session.h"

namespace tessera::load {

// Thread-safe.
class ResidentTarget : public DecodeTarget {
 public:
  // Asks the server for the profile, and fills in what `shape` leaves to it. Keeps a sample of `verify` answers, none
  // where that is 0. INVALID_ARGUMENT for a shape that the profile cannot have.
  static absl::StatusOr<std::unique_ptr<ResidentTarget>> Connect(const TesseraOptions& options, DecodeShape* shape,
                                                                 int64_t verify, uint64_t seed);

  absl::StatusOr<std::unique_ptr<SequenceGroup>> Open(uint64_t ordinal) override;
  bool keeps_rows() const override { return true; }

  // One token of one sequence: its bytes are what crosses the wire for it in each layer. No lengths.
  const CallShape& token() const { return token_; }
  // For people: the server, and the profile.
  const std::string& description() const { return description_; }

  // Whether the sample is right; nothing where none was to be taken. REQUIRES: no step is under way.
  std::optional<CheckResult> Check(int rows_per_answer, uint64_t seed);

 private:
  class Group;

  ResidentTarget(const TesseraOptions& options, const DecodeShape& shape, const CallShape& token, uint64_t seed);

  const TesseraOptions options_;
  const DecodeShape shape_;
  const CallShape token_;
  const RowBank bank_;
  std::string description_;
  std::optional<StepSampler> sampler_;
  std::vector<std::unique_ptr<SequenceSession>> sessions_;  // one for each tenant, taken in turn
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_DECODE_RESIDENT_TARGET_H_
