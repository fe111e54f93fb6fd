// One unary Extend call, from the received message to the answer. Its bytes go the way of AttendUnary's.
#ifndef TESSERA_SERVER_RPC_EXTEND_UNARY_H_
#define TESSERA_SERVER_RPC_EXTEND_UNARY_H_

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/request/extend_job.h"
#include "server/rpc/admission.h"
#include "server/rpc/send_watch.h"
#include "server/rpc/sequence_environment.h"
#include "server/scheduler/job.h"

namespace tessera {

// Owned by gRPC from Start to OnDone, where it deletes itself. FinishWith is called once: by Start while there is no
// job, by Answer, the job's DoneFn, where there is one; never for a call without a message.
class ExtendUnary final : public grpc::ServerUnaryReactor {
 public:
  // `request` and `response` are the RPC's own and live until OnDone.
  static grpc::ServerUnaryReactor* Start(const SequenceEnvironment& environment, grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request, grpc::ByteBuffer* response);

 private:
  ExtendUnary(const SequenceEnvironment& environment, grpc::CallbackServerContext* context, grpc::ByteBuffer* response);

  void OnCancel() override;
  void OnDone() override;

  // Charges, parses, checks and copies the message into a job. After an error there is no job.
  absl::Status Receive(const grpc::ByteBuffer& request);
  void Answer(const absl::Status& status, Job::State where);
  // As AttendUnary's.
  void FinishWithoutMessage();
  // Counts and sends the ending.
  void FinishWith(const absl::Status& status, Station where);

  const SequenceEnvironment& environment_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const response_;
  const absl::Time started_;
  const std::shared_ptr<SendWatch> send_watch_;
  Admission::Ticket ticket_;
  ExtendJobPtr job_;
  bool no_message_ = false;
  std::atomic<absl::StatusCode> code_ = absl::StatusCode::kOk;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_EXTEND_UNARY_H_
