// One AttendStream: many calls at once over a pair of message flows.
//
// Reading and writing are independent: messages are handled one after the other as they come, and answers are written
// as calls end. Back pressure is by not reading: while the client leaves too many answers unread, its messages stay in
// the transport. A malformed message ends the stream; a bad call only itself.
#ifndef TESSERA_SERVER_RPC_ATTEND_STREAM_H_
#define TESSERA_SERVER_RPC_ATTEND_STREAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "proto/wire/attend_decode.h"
#include "server/rpc/attend_environment.h"
#include "server/rpc/outbox.h"
#include "server/rpc/send_watch.h"
#include "server/rpc/stream_call.h"
#include "server/rpc/stream_registry.h"
#include "server/rpc/stream_tenant.h"
#include "server/rpc/stripe_table.h"

namespace tessera {

// Holds itself from Start to OnDone; calls that are still open hold it, too, and drop their answers into it until then.
class AttendStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                           public AnswerSink,
                           public OpenStream,
                           public std::enable_shared_from_this<AttendStream> {
 public:
  // All outlive the stream.
  static AttendStream* Start(const AttendEnvironment& environment, StripeTable* stripes, StreamRegistry* registry,
                             grpc::CallbackServerContext* context);

  void TakeAnswer(StreamAnswer answer) override;
  // Ends the stream with UNAVAILABLE as soon as no call is open.
  void CloseWhenIdle() override;
  void EndCalls(const absl::Status& status) override;

 private:
  AttendStream(const AttendEnvironment& environment, StripeTable* stripes, StreamRegistry* registry,
               grpc::CallbackServerContext* context);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Fails only for a malformed message.
  absl::Status HandleMessage();
  void OpenCall(const wire::DecodedAttendStreamRequest& message);
  absl::StatusOr<std::shared_ptr<StreamCall>> MakeCall(const wire::DecodedAttendStreamRequest& message);
  // Answers a call that never came to be, and counts it.
  void Refuse(uint64_t id, const absl::Status& status);
  // Answers for a call that other streams carry and that has been counted.
  void AnswerLate(uint64_t id, const absl::Status& status);
  std::shared_ptr<StreamCall> FindCall(uint64_t id);
  // Ends every open call, and every answer that has not been sent, with `calls_end`, and the stream with `stream_end`.
  void Break(const absl::Status& calls_end, const absl::Status& stream_end);
  std::vector<std::shared_ptr<StreamCall>> OpenCalls();

  void ReadNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts whatever may be started: the next write, the next read, the end.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishWith(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AttendEnvironment& environment_;
  StripeTable* const stripes_;
  StreamRegistry* const registry_;
  grpc::CallbackServerContext* const context_;
  const absl::Time started_;
  const std::shared_ptr<SendWatch> send_watch_;
  StreamTenant tenant_;                 // the handler's
  std::shared_ptr<AttendStream> self_;  // until OnDone
  grpc::ByteBuffer incoming_;           // gRPC's while a read is under way, else the handler's

  absl::Mutex mutex_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<StreamCall>> calls_ ABSL_GUARDED_BY(mutex_);
  Outbox outbox_ ABSL_GUARDED_BY(mutex_);
  Outbox::Message outgoing_ ABSL_GUARDED_BY(mutex_);  // gRPC's while writing_
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool write_failed_ ABSL_GUARDED_BY(mutex_) = false;  // nothing can be sent any more; OnCancel follows
  bool reading_paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;  // the client sends no more
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;      // CloseWhenIdle
  absl::Status calls_end_ ABSL_GUARDED_BY(mutex_);    // not OK: EndCalls
  struct Breaking {
    absl::Status calls_end;
    absl::Status stream_end;
  };
  std::optional<Breaking> broken_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;  // Finish has been called: gRPC takes nothing more
  absl::StatusCode code_ ABSL_GUARDED_BY(mutex_) = absl::StatusCode::kOk;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_ATTEND_STREAM_H_
