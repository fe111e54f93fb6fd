// One unary call that becomes a job, from the received message to the answer: what Attend and Extend have in common.
//
// The payload is copied once, from gRPC's slices into staging memory, and the slices are given back at once; the
// answer's slices alias the job's output and keep the job alive until gRPC has sent them.
#ifndef TESSERA_SERVER_RPC_UNARY_JOB_CALL_H_
#define TESSERA_SERVER_RPC_UNARY_JOB_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/admission.h"
#include "server/rpc/attend_environment.h"
#include "server/rpc/caller.h"
#include "server/rpc/send_watch.h"
#include "server/rpc/status.h"
#include "server/scheduler/job.h"

namespace tessera {

// Owned by gRPC from Begin to OnDone, where it deletes itself. FinishWith is called once: by Begin while there is no
// job, by Answer, the job's DoneFn, where there is one; never for a call without a message. JobType is a DeviceJob with
// an input.
template <typename JobType>
class UnaryJobCall : public grpc::ServerUnaryReactor {
 protected:
  using JobPtr = std::shared_ptr<JobType>;

  // A job that is not queued yet.
  struct Admitted {
    Admission::Ticket ticket;
    JobPtr job;
  };

  // `response` is the RPC's own and lives until OnDone.
  UnaryJobCall(const AttendEnvironment& environment, RpcMethod method, grpc::CallbackServerContext* context,
               grpc::ByteBuffer* response)
      : environment_(environment),
        method_(method),
        context_(context),
        response_(response),
        started_(environment.clock->Now()),
        send_watch_(std::make_shared<SendWatch>(environment, context)) {
    environment_.observer->OnRpcStarted(method_);
  }

  // Called once, before anything else. `request` is the RPC's own and lives until OnDone.
  void Begin(const grpc::ByteBuffer* request) {
    if (!request->Valid()) return FinishWithoutMessage();
    const absl::Status received = Receive(*request);
    // The request is gRPC's until the RPC ends, but its slices are not needed any more. The object behind the reference
    // is not const; only the generated signature is.
    const_cast<grpc::ByteBuffer*>(request)->Clear();
    if (!received.ok()) return FinishWith(received, Station::kReceive);
    const JobPtr job = job_;
    const absl::Time queue_time = environment_.clock->Now();
    job->SetArrival(started_, queue_time);
    environment_.observer->OnStage(Stage::kReceive, queue_time - started_);
    Queue(job);
  }

 private:
  // Parses and checks the message, takes memory for its call, and copies its payload there. The job's DoneFn is `done`.
  virtual absl::StatusOr<Admitted> Admit(const grpc::ByteBuffer& request, std::string tenant, absl::Time deadline,
                                         typename JobType::DoneFn done) = 0;
  // Has the job queued, or ends it.
  virtual void Queue(const JobPtr& job) = 0;
  // Takes a job that has ended out of the queue.
  virtual void Forget(const JobType& job) = 0;
  // The answer of a job that ended OK.
  virtual grpc::ByteBuffer Encode(const JobPtr& job) = 0;

  // Of a job that ended OK, what came first; whoever comes second counts that its answer is lost.
  enum class Fate : uint8_t { kOpen, kAnswered, kCancelled };

  static absl::Status NoMessage() { return absl::InvalidArgumentError("the call ended without a message"); }

  // Charges the message and has it admitted. After an error there is no job.
  absl::Status Receive(const grpc::ByteBuffer& request) {
    absl::StatusOr<std::string> tenant = TenantOf(context_->client_metadata(), environment_.tokens);
    if (!tenant.ok()) return tenant.status();
    const absl::StatusOr<ByteBudget::Charge> charge =
        environment_.admission->AdmitMessage(*tenant, static_cast<int64_t>(request.Length()));
    if (!charge.ok()) return charge.status();
    absl::StatusOr<Admitted> admitted =
        Admit(request, *std::move(tenant), DeadlineOf(*context_, *environment_.clock),
              [this](const absl::Status& status, Job::State where) { Answer(status, where); });
    if (!admitted.ok()) return admitted.status();
    ticket_ = std::move(admitted->ticket);
    job_ = std::move(admitted->job);
    return absl::OkStatus();
  }

  void OnCancel() override {
    if (job_ == nullptr) return;
    const absl::Status reason = send_watch_->Reason();
    if (job_->Finish(reason)) {
      Forget(*job_);
    } else if (fate_.exchange(Fate::kCancelled) == Fate::kAnswered) {
      CountEnding(reason, Station::kSend, environment_.observer);
    }
  }

  void OnDone() override {
    if (no_message_) {
      const absl::Status ending = context_->IsCancelled() ? send_watch_->Reason() : NoMessage();
      code_ = ending.code();
      CountEnding(ending, Station::kReceive, environment_.observer);
    }
    send_watch_->Close();
    const absl::Time now = environment_.clock->Now();
    if (job_ != nullptr && code_ == absl::StatusCode::kOk) {
      environment_.observer->OnStage(Stage::kSend, now - job_->times().finished);
    }
    environment_.observer->OnRpcHandled(method_, code_, now - started_);
    delete this;
  }

  // gRPC hands over a call without a message where its client half-closed, or went away while it sent one. Which of
  // the two only the RPC's end tells, so that OnDone counts the call.
  void FinishWithoutMessage() {
    no_message_ = true;
    Finish(ToGrpcStatus(NoMessage()));
  }

  void Answer(const absl::Status& status, Job::State where) {
    if (status.ok()) {
      environment_.observer->OnStage(Stage::kQueue, job_->times().launched - job_->times().queued);
      job_->input().Release();
      grpc::ByteBuffer answer = Encode(job_);
      response_->Swap(&answer);
      send_watch_->Sending();
    }
    FinishWith(status, StationOf(where));
  }

  // Counts and sends the ending.
  void FinishWith(const absl::Status& status, Station where) {
    code_ = status.code();
    CountEnding(status, where, environment_.observer);
    if (status.ok()) {
      if (fate_.exchange(Fate::kAnswered) == Fate::kCancelled) {
        CountEnding(send_watch_->Reason(), Station::kSend, environment_.observer);
      }
    } else {
      const absl::Duration retry_after = RetryAfter(status, environment_.scheduler->RetryAfter());
      if (retry_after > absl::ZeroDuration()) AddRetryPushback(retry_after, context_);
      AddRedirect(status, context_);
    }
    Finish(ToGrpcStatus(status));
  }

  const AttendEnvironment& environment_;
  const RpcMethod method_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const response_;
  const absl::Time started_;
  const std::shared_ptr<SendWatch> send_watch_;
  Admission::Ticket ticket_;
  JobPtr job_;
  bool no_message_ = false;
  std::atomic<Fate> fate_ = Fate::kOpen;
  absl::StatusCode code_ = absl::StatusCode::kOk;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_UNARY_JOB_CALL_H_
