// Who gets in: memory is charged and staging taken here, before a byte of a call is touched, and nowhere else.
#ifndef TESSERA_SERVER_RPC_ADMISSION_H_
#define TESSERA_SERVER_RPC_ADMISSION_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/clock/clock.h"
#include "server/memory/byte_budget.h"
#include "server/memory/staging_pool.h"
#include "server/request/attend_shape.h"
#include "server/rpc/rpc_observer.h"

namespace tessera {

// Thread-safe, never blocks but in Drain. Refusals are counted here. Outlives what it hands out.
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

  // What an admitted call owns.
  struct Grant {
    Ticket ticket;
    ByteBudget::Charge charge;  // of input and output
    StagingBuffer input;
    StagingBuffer output;
  };

  // All outlive the admission.
  Admission(ByteBudget* budget, StagingPool* staging, Clock* clock, RpcObserver* observer)
      : budget_(budget), staging_(staging), clock_(clock), observer_(observer) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // Charges a message that gRPC has received, for as long as its slices are held. RESOURCE_EXHAUSTED or
  // INVALID_ARGUMENT as ByteBudget::Acquire.
  absl::StatusOr<ByteBudget::Charge> AdmitMessage(int64_t bytes);

  // Takes memory for a call. UNAVAILABLE once closed; RESOURCE_EXHAUSTED or INVALID_ARGUMENT where the memory cannot be
  // had now or ever.
  absl::StatusOr<Grant> AdmitCall(const AttendShape& shape);

  // Refuses every call from now on.
  void Close();
  // Waits until no ticket is held, or the deadline passes; returns whether all came back. REQUIRES: closed.
  bool Drain(absl::Time deadline);

  const ByteBudget& budget() const { return *budget_; }
  const StagingPool& staging() const { return *staging_; }

 private:
  absl::StatusOr<Ticket> Enter();
  void Leave();
  // Counts a refusal and gives it back.
  absl::Status Refused(absl::Status status, RejectReason full);

  ByteBudget* const budget_;
  StagingPool* const staging_;
  Clock* const clock_;
  RpcObserver* const observer_;
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t tickets_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_ADMISSION_H_
