// Makes the workload's calls in regions: tensors lie in memory that is shared with the server, and do not travel.
#ifndef TESSERA_CLIENT_CPP_LOAD_REGION_TARGET_H_
#define TESSERA_CLIENT_CPP_LOAD_REGION_TARGET_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "client/cpp/load/call_shape.h"
#include "client/cpp/load/cuda_driver.h"
#include "client/cpp/load/payload_pool.h"
#include "client/cpp/load/region_memory.h"
#include "client/cpp/load/target.h"
#include "client/cpp/load/tessera_target.h"
#include "client/cpp/tessera/region_session.h"

namespace tessera::load {

struct RegionOptions {
  RegionKind kind = RegionKind::kSharedMemory;
  int payloads = 1;  // of each shape, copied into regions once
  int places = 1;    // for outputs, of each shape: calls at a time
  // Hand the tensors of answers on; from a GPU's memory they are copied for that.
  bool hand_on_answers = false;
};

// Thread-safe. A session for each connection, each with the inputs and a part of the places for outputs.
class RegionTarget final : public Target {
 public:
  // Of `server`, the transport and what goes with several tenants or attempts do not count. What it points to must
  // outlive it.
  static absl::StatusOr<std::unique_ptr<RegionTarget>> Connect(const TesseraOptions& server,
                                                               const RegionOptions& options,
                                                               absl::Span<const CallShape> shapes,
                                                               const PayloadPool& payloads);

  // REQUIRES: no call is in flight.
  ~RegionTarget() override;

  // RESOURCE_EXHAUSTED where every place is taken.
  void Issue(const Call& call, AnswerCallback done) override;

 private:
  // Where the outputs of one call go.
  struct Place {
    size_t session = 0;
    absl::Span<std::byte> o;
    absl::Span<std::byte> lse;
  };
  // A shape's regions and places.
  struct Prepared {
    v1::AttendHeader header;
    absl::Duration timeout;
    size_t q_bytes = 0;
    size_t kv_bytes = 0;
    size_t block_bytes = 0;                              // of one payload
    std::vector<std::unique_ptr<RegionMemory>> inputs;   // one a session
    std::vector<std::unique_ptr<RegionMemory>> outputs;  // likewise
    std::vector<Place> places;
  };

  explicit RegionTarget(const RegionOptions& options) : options_(options) {}

  absl::Status Prepare(const CallShape& shape, size_t ordinal, const PayloadPool& payloads, Prepared* prepared);
  // What the call whose outputs are at `place` came to. Its tensors, where they are handed on, go to `copy`.
  Answer AnswerOf(const Prepared& prepared, const Place& place, const absl::StatusOr<AttendReply>& reply,
                  std::vector<std::byte>* copy) const;

  const RegionOptions options_;
  std::unique_ptr<CudaDriver> driver_;  // null for shared memory
  std::vector<std::unique_ptr<RegionSession>> sessions_;
  std::vector<Prepared> prepared_;  // one a shape
  absl::Mutex mutex_;
  std::vector<std::vector<Place*>> free_ ABSL_GUARDED_BY(mutex_);  // one list a shape
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_REGION_TARGET_H_
