// One AttendStream: calls that come and are answered in chunks, over one stream or several.
#ifndef TESSERA_SERVER_RPC_ATTEND_STREAM_H_
#define TESSERA_SERVER_RPC_ATTEND_STREAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/wire/attend_decode.h"
#include "server/rpc/attend_environment.h"
#include "server/rpc/call_stream.h"
#include "server/rpc/outbox.h"
#include "server/rpc/stream_call.h"
#include "server/rpc/stream_registry.h"
#include "server/rpc/stripe_table.h"

namespace tessera {

class AttendStream final : public CallStream, public AnswerSink {
 public:
  // All outlive the stream.
  static AttendStream* Start(const AttendEnvironment& environment, StripeTable* stripes, StreamRegistry* registry,
                             grpc::CallbackServerContext* context);

  void TakeAnswer(StreamAnswer answer) override;

 private:
  AttendStream(const AttendEnvironment& environment, StripeTable* stripes, StreamRegistry* registry,
               grpc::CallbackServerContext* context);

  absl::Status HandleMessage(grpc::ByteBuffer* message) override;
  void ReadsDone() override;
  void MessageDone(bool sent) override;
  void EndOpenCalls(const absl::Status& status) override;
  void Broken(const absl::Status& status) override;
  bool HasAnswer() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !outbox_.empty(); }
  bool AnswersFull() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  grpc::ByteBuffer TakeMessage() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ReadyToEnd() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_.empty(); }

  void OpenCall(const wire::DecodedAttendStreamRequest& message, int64_t message_bytes);
  absl::StatusOr<std::shared_ptr<StreamCall>> MakeCall(const wire::DecodedAttendStreamRequest& message,
                                                       int64_t message_bytes);
  // Answers a call that never came to be, and counts it.
  void Refuse(uint64_t id, const absl::Status& status);
  // Answers for a call that other streams carry and that has been counted.
  void AnswerLate(uint64_t id, const absl::Status& status);
  std::shared_ptr<StreamCall> FindCall(uint64_t id);
  std::vector<std::shared_ptr<StreamCall>> OpenCalls();

  const AttendEnvironment& environment_;
  StripeTable* const stripes_;

  absl::flat_hash_map<uint64_t, std::shared_ptr<StreamCall>> calls_ ABSL_GUARDED_BY(mutex_);
  Outbox outbox_ ABSL_GUARDED_BY(mutex_);
  // Of the answer that the message under way completes.
  std::shared_ptr<StreamCall> completes_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Time> ended_ ABSL_GUARDED_BY(mutex_);  // likewise; not where that is an error
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_ATTEND_STREAM_H_
