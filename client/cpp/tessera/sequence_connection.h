// One connection of a SequenceSession: its stream, and the other calls of the sequences that live on it.
#ifndef TESSERA_CLIENT_CPP_TESSERA_SEQUENCE_CONNECTION_H_
#define TESSERA_CLIENT_CPP_TESSERA_SEQUENCE_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/tessera/call_count.h"
#include "client/cpp/tessera/endpoint.h"
#include "client/cpp/tessera/extend_operation.h"
#include "client/cpp/tessera/extend_rpc.h"
#include "client/cpp/tessera/options.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "tessera/v1/sequence.grpc.pb.h"
#include "tessera/v1/server.grpc.pb.h"

namespace tessera {

// Thread-safe. gRPC connects when it is first used, and again after a failure; a stream that has ended is followed by a
// new one.
class SequenceConnection {
 public:
  SequenceConnection(const Endpoint& endpoint, const ClientOptions& options);
  // Waits for the sequences that are being released: one may be let go of on another thread while the session closes.
  // REQUIRES: Close has returned, or nothing else was ever started.
  ~SequenceConnection() { unary_calls_.AwaitNone(); }

  // Sends the call on its way: over the stream, or as an RPC of its own where the transport is unary.
  void Start(const std::shared_ptr<ExtendOperation>& call) ABSL_LOCKS_EXCLUDED(mutex_);

  // Makes a unary call of SequenceService and waits. The status has the server's pushback and redirect; CANCELLED is
  // UNAVAILABLE.
  template <typename Request, typename Response>
  absl::Status Ask(grpc::Status (v1::SequenceService::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                   const Request& request, absl::Time deadline, Response* response) {
    grpc::ClientContext context;
    Prepare(deadline, &context);
    return StatusOf(context, (stub_.get()->*method)(&context, request, response));
  }

  // The same, again after RESOURCE_EXHAUSTED as the retry policy and the deadline allow, where the server names a time.
  template <typename Request, typename Response>
  absl::Status AskPatiently(grpc::Status (v1::SequenceService::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                              Response*),
                            const Request& request, absl::Time deadline, Response* response) {
    int attempt = 1;
    while (true) {
      const absl::Status status = Ask(method, request, deadline, response);
      if (!AwaitRetry(options_.retry, attempt++, status, deadline)) return status;
    }
  }

  // Releases a sequence, and does not wait.
  void ReleaseSoon(const std::string& handle);

  // The deadline of a call that asks for `timeout`; zero: the default.
  absl::Time DeadlineAfter(absl::Duration timeout) const;

  // Sequences of this session on the connection, by which the session chooses.
  std::atomic<int64_t>& sequences() { return sequences_; }

  // How long servers may take to end half-closed streams.
  static constexpr absl::Duration kGoodbyeTimeout = absl::Seconds(2);

  // Half-closes the streams, and does not wait. Nothing is started after it.
  void HalfClose() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the streams, and with them the calls that the server has not answered by the deadline, and waits for the end
  // of all calls. REQUIRES: HalfClose has returned.
  void Close(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until a call that ended with `status` may be tried again. False where it may not: `attempt` of them have been
  // made, the server has named no time, or it is beyond the deadline.
  static bool AwaitRetry(const RetryPolicy& policy, int attempt, const absl::Status& status, absl::Time deadline);

 private:
  class UnaryExtend;

  struct LimitsQuestion;

  // How long the server may take to tell its limits.
  static constexpr absl::Duration kLimitsTimeout = absl::Seconds(20);

  void Prepare(absl::Time deadline, grpc::ClientContext* context) const;
  static absl::Status StatusOf(const grpc::ClientContext& context, const grpc::Status& status);
  // The open stream, or a new one.
  std::shared_ptr<ExtendRpc> Stream() ABSL_LOCKS_EXCLUDED(mutex_);
  // Asks the server for its limits, and tells the stream. Where the server does not say, calls go one by one.
  void AskLimits(const std::shared_ptr<ExtendRpc>& stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ClientOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub generic_stub_;
  const std::unique_ptr<v1::SequenceService::Stub> stub_;
  const std::unique_ptr<v1::ServerService::Stub> server_stub_;
  std::atomic<int64_t> sequences_{0};
  CallCount unary_calls_;

  absl::Mutex mutex_;
  // The last one takes calls; those before it have ended, or are about to.
  std::vector<std::shared_ptr<ExtendRpc>> streams_ ABSL_GUARDED_BY(mutex_);
  std::weak_ptr<LimitsQuestion> limits_question_ ABSL_GUARDED_BY(mutex_);  // for the last one
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_SEQUENCE_CONNECTION_H_
