// Who gets in: memory is charged and staging taken here, before a byte of a call is touched, and nowhere else.
#ifndef TESSERA_SERVER_RPC_ADMISSION_H_
#define TESSERA_SERVER_RPC_ADMISSION_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/clock/clock.h"
#include "server/memory/byte_budget.h"
#include "server/memory/staging_pool.h"
#include "server/request/attend_shape.h"

namespace tessera {

// Thread-safe, never blocks but in Drain. RESOURCE_EXHAUSTED carries its reason (WithReason). Outlives what it hands
// out.
class Admission {
 public:
  // Held by a call from its admission until its answer has been handed to gRPC; Drain waits for all of them. Movable,
  // not copyable.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Ticket&& other) noexcept;
    Ticket& operator=(Ticket&& other) noexcept;
    ~Ticket();

   private:
    friend class Admission;
    explicit Ticket(Admission* admission) : admission_(admission) {}
    Admission* admission_ = nullptr;
  };

  // What a call needs.
  struct CallMemory {
    int64_t input_bytes = 0;
    int64_t output_bytes = 0;
    int64_t held_bytes = 0;  // these two, and what the server keeps of the call besides
  };
  // What an admitted call owns.
  struct Grant {
    Ticket ticket;
    ByteBudget::Charge charge;  // of held_bytes, or of AttendShape::metadata_bytes in regions
    StagingBuffer input;
    StagingBuffer output;
  };

  // All outlive the admission.
  Admission(int64_t max_message_bytes, ByteBudget* budget, StagingPool* staging, Clock* clock)
      : max_message_bytes_(max_message_bytes), budget_(budget), staging_(staging), clock_(clock) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // Charges a message that gRPC has received, for as long as its slices are held, beside `call_bytes` that its call
  // holds already. INVALID_ARGUMENT above max_message_bytes; RESOURCE_EXHAUSTED or INVALID_ARGUMENT where there is no
  // room for it now or ever.
  absl::StatusOr<ByteBudget::Charge> AdmitMessage(absl::string_view tenant, int64_t bytes, int64_t call_bytes = 0);

  // Takes memory for a call, beside the message of `message_bytes` that opens it. UNAVAILABLE once closed;
  // RESOURCE_EXHAUSTED or INVALID_ARGUMENT where the memory cannot be had now or ever.
  absl::StatusOr<Grant> AdmitCall(absl::string_view tenant, const CallMemory& memory, int64_t message_bytes);
  absl::StatusOr<Grant> AdmitCall(absl::string_view tenant, const AttendShape& shape, int64_t message_bytes) {
    return AdmitCall(tenant, CallMemory{shape.input_bytes(), shape.output_bytes(), shape.held_bytes()}, message_bytes);
  }
  // UNAVAILABLE once closed: for calls that take no memory.
  absl::Status CheckOpen();

  // For a call whose tensors lie in regions, which have been charged for: takes no staging memory. As AdmitCall
  // otherwise.
  absl::StatusOr<Grant> AdmitRegionCall(absl::string_view tenant, const AttendShape& shape, int64_t message_bytes);

  // Refuses every call from now on, with the first `refusal` given.
  void Close(const absl::Status& refusal = absl::UnavailableError("the server is draining"));
  // Waits until no ticket is held, or the deadline passes; returns whether all came back. REQUIRES: closed.
  bool Drain(absl::Time deadline);

  const ByteBudget& budget() const { return *budget_; }
  const StagingPool& staging() const { return *staging_; }

 private:
  absl::StatusOr<Ticket> Enter();
  void Leave();

  const int64_t max_message_bytes_;
  ByteBudget* const budget_;
  StagingPool* const staging_;
  Clock* const clock_;
  absl::Mutex mutex_;
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);  // not OK: closed
  int64_t tickets_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_ADMISSION_H_
