// A stream of calls: many at once over a pair of message flows. What the kinds of streams have in common.
//
// Reading and writing are independent: messages are handled one after the other as they come, and answers are written
// as calls end. Back pressure is by not reading: while the client leaves too many answers unread, its messages stay in
// the transport. A malformed message ends the stream; a bad call only itself.
#ifndef TESSERA_SERVER_RPC_CALL_STREAM_H_
#define TESSERA_SERVER_RPC_CALL_STREAM_H_

#include <cstddef>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/attend_environment.h"
#include "server/rpc/rpc_observer.h"
#include "server/rpc/send_watch.h"
#include "server/rpc/stream_registry.h"
#include "server/rpc/stream_tenant.h"

namespace tessera {

// Holds itself from Start to OnDone. Calls that are still open hold it, too, and drop their answers into it until then.
class CallStream : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                   public OpenStream,
                   public std::enable_shared_from_this<CallStream> {
 public:
  // Ends the stream with UNAVAILABLE as soon as everything that it was asked for has been answered.
  void CloseWhenIdle() final;
  void EndCalls(const absl::Status& status) final;

 protected:
  // All outlive the stream.
  CallStream(RpcMethod method, const AttendEnvironment& environment, StreamRegistry* registry,
             grpc::CallbackServerContext* context);

  // Registers a stream that has just been made, and reads its first message.
  static void Start(const std::shared_ptr<CallStream>& stream);

  // What a kind of stream does. Called with no lock held:

  // One message after the other. Fails only for a malformed one.
  virtual absl::Status HandleMessage(grpc::ByteBuffer* message) = 0;
  // The client sends no more.
  virtual void ReadsDone() {}
  // The message of the last TakeMessage has gone out, or could not; then its answer is lost once the stream breaks.
  virtual void MessageDone(bool sent) = 0;
  // Ends every open call.
  virtual void EndOpenCalls(const absl::Status& status) = 0;
  // The stream has broken: counts every answer that has not been sent, and ends every open call, with `status`.
  virtual void Broken(const absl::Status& status) = 0;

  // And with the lock held:

  virtual bool HasAnswer() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // The answers wait for a client that does not read them.
  virtual bool AnswersFull() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // The next message of the answers. REQUIRES: HasAnswer().
  virtual grpc::ByteBuffer TakeMessage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // The stream is to end: whether nothing that it was asked for is under way. A call is until its answer is there, so
  // the lock is held from before the one to after the other.
  virtual bool ReadyToEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;

  // Starts whatever may be started: the next write, the next read, the end. To be called when an answer has come and
  // when a call has ended.
  void Advance() ABSL_LOCKS_EXCLUDED(mutex_);
  // The stream takes no more answers.
  bool over() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return finished_ || stream_end_.has_value(); }
  // How a call that opens now is to end at once; OK where it may live.
  const absl::Status& calls_end() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_end_; }
  // RESOURCE_EXHAUSTED where a stream with that many open calls may not open another.
  absl::Status MayOpen(size_t open_calls) const;

  // The handler's.
  const StreamTenant& tenant() const { return tenant_; }
  const grpc::CallbackServerContext& context() const { return *context_; }

  absl::Mutex mutex_;

 private:
  void OnReadDone(bool ok) final;
  void OnWriteDone(bool ok) final;
  void OnCancel() final;
  void OnDone() final;

  // Ends every open call, and every answer that has not been sent, with `calls_end`, and the stream with `stream_end`.
  void Break(const absl::Status& calls_end, const absl::Status& stream_end);
  // Advance but for the write: true where the caller is to start it, once it has let go of the lock. For gRPC then
  // writes to the connection, while others have messages to handle and answers to add.
  bool TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishWith(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RpcMethod method_;
  const AttendEnvironment& environment_;
  StreamRegistry* const registry_;
  grpc::CallbackServerContext* const context_;
  const absl::Time started_;
  const std::shared_ptr<SendWatch> send_watch_;
  StreamTenant tenant_;               // the handler's
  std::shared_ptr<CallStream> self_;  // until OnDone
  grpc::ByteBuffer incoming_;         // gRPC's while a read is under way, else the handler's
  // gRPC's while a write is under way, and until writing_ is over. What it aliases may be the last of a call, whose end
  // comes back here: not let go of under the lock.
  grpc::ByteBuffer outgoing_;

  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool write_failed_ ABSL_GUARDED_BY(mutex_) = false;  // nothing can be sent any more; OnCancel follows
  bool reading_paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;                // the client sends no more
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;                    // CloseWhenIdle
  absl::Status calls_end_ ABSL_GUARDED_BY(mutex_);                  // not OK: EndCalls, Break, or the end
  std::optional<absl::Status> stream_end_ ABSL_GUARDED_BY(mutex_);  // Break
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;                   // Finish was called: gRPC takes nothing more
  absl::StatusCode code_ ABSL_GUARDED_BY(mutex_) = absl::StatusCode::kOk;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_CALL_STREAM_H_
