// Attention over keys and values that stay on the server: start here.
//
//   auto session = tessera::SequenceSession::Connect("localhost:7171", {});
//   auto sequences = (*session)->Create("profile", 8);
//   tessera::ExtendCall call;                 // steps of these sequences, their tensors: extend_call.h
//   absl::StatusOr<tessera::ExtendReply> reply = (*session)->Extend(call);
//   auto beam = (*sequences)[0].Fork();       // resident_sequence.h
//
// docs/kv_cache.md has the rules of the server.
#ifndef TESSERA_CLIENT_CPP_TESSERA_SEQUENCE_SESSION_H_
#define TESSERA_CLIENT_CPP_TESSERA_SEQUENCE_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/tessera/attend_call.h"
#include "client/cpp/tessera/endpoint.h"
#include "client/cpp/tessera/extend_call.h"
#include "client/cpp/tessera/extend_operation.h"
#include "client/cpp/tessera/options.h"
#include "client/cpp/tessera/resident_sequence.h"
#include "client/cpp/tessera/timer_queue.h"

namespace tessera {

class SequenceConnection;

// Thread-safe. Has options.connections connections to each server, a stream on each, and a thread for deadlines; calls
// cost no thread of their own.
class SequenceSession {
 public:
  // As Client::Connect. Of the options, connections, transport, default_timeout, tenant, retry, keepalive,
  // stall_timeout, credentials and server_name count. INVALID_ARGUMENT for every_address: a sequence stays where it is.
  static absl::StatusOr<std::unique_ptr<SequenceSession>> Connect(const std::string& target,
                                                                  const ClientOptions& options);
  SequenceSession(const SequenceSession&) = delete;
  SequenceSession& operator=(const SequenceSession&) = delete;
  // Withdraws the calls in flight and waits until their callbacks have run, about two seconds at most however many
  // servers do not answer. REQUIRES: not called from a callback.
  ~SequenceSession();

  // Empty sequences of one of the server's profiles, all or none, and all on one connection: of the server that has the
  // fewest of this session's, its connection with the fewest. Where that one is gone or full, another server is tried.
  // RESOURCE_EXHAUSTED is tried again as options.retry says, where a server names a time: after the shortest of these.
  absl::StatusOr<std::vector<ResidentSequence>> Create(absl::string_view profile, uint32_t count = 1,
                                                       absl::Duration timeout = absl::ZeroDuration());

  // The sequence of a handle that some session has detached. It stays on its server: the one of the target's that the
  // handle names (it is advertised as the target spells it), or else whichever of them keeps the sequence or knows who
  // does. That one is followed, once, also to a server that is not the target's, which the session connects to then
  // with the same options. NOT_FOUND where nobody asked keeps the sequence; UNAVAILABLE where none can be asked.
  absl::StatusOr<ResidentSequence> Attach(const std::string& handle, absl::Duration timeout = absl::ZeroDuration());

  // Returns at once. `callback` runs exactly once, on a thread of gRPC's or of the session's, possibly before this
  // returns; it must not block. It runs only when nobody reads or writes the call's tensors any more.
  //
  // Any number of calls may be under way; no more than the server allows on a stream (Limits.max_stream_calls) are sent
  // ahead of their answers. Those that name the same sequence are done in the order in which they were started, so that
  // layer after layer and token after token may be sent ahead, as long as all sequences of a call are on one
  // connection: those of one Create, and their forks. With Transport::kUnary there is no such order.
  //
  // A call that fails does not stop those behind it: a step that the server refuses, for want of pages or of memory for
  // its bytes, leaves a hole in a layer that later steps fill with the wrong tokens, each with an OK answer. So whoever
  // sends steps ahead compares the lengths in every answer with those expected, or, once a call has failed, waits for
  // the calls behind it, truncates the sequences to where they were before it (ResidentSequence::Truncate), and does
  // all of them again. Nothing is tried again here, for a later step may be there already.
  CallHandle ExtendAsync(const ExtendCall& call, ExtendCallback callback);

  // Waits for the answer. RESOURCE_EXHAUSTED is tried again as options.retry says, where the server names a time.
  absl::StatusOr<ExtendReply> Extend(const ExtendCall& call);

 private:
  struct Server {
    Endpoint endpoint;
    std::vector<std::shared_ptr<SequenceConnection>> connections;
  };

  SequenceSession(const ClientOptions& options, std::vector<std::unique_ptr<Server>> servers);

  // ExtendAsync, with a deadline.
  CallHandle Start(const ExtendCall& call, absl::Time deadline, ExtendCallback callback);
  static std::unique_ptr<Server> Open(const Endpoint& endpoint, const ClientOptions& options);
  // The one with the fewest sequences.
  static const std::shared_ptr<SequenceConnection>& LeastUsed(const Server& server);
  // The target's servers, and then those that redirects have named.
  std::vector<const Server*> Known() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The server that the connection is to; null where it is not this session's.
  const Server* HomeOf(const SequenceConnection* connection) const ABSL_LOCKS_EXCLUDED(mutex_);
  // A sequence by its handle, from that server.
  absl::StatusOr<ResidentSequence> AttachFrom(const Server& server, const std::string& handle, absl::Time deadline);
  // The server that a redirect names, connected to where it is new. INTERNAL where that is no "host:port".
  absl::StatusOr<const Server*> ServerAt(const std::string& address) ABSL_LOCKS_EXCLUDED(mutex_);
  // The connection that all steps of the call can go over. INVALID_ARGUMENT where there is none.
  absl::StatusOr<std::shared_ptr<SequenceConnection>> Route(const ExtendCall& call) const;
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return operations_.empty(); }

  const ClientOptions options_;
  TimerQueue timers_;
  const std::vector<std::unique_ptr<Server>> servers_;  // the target's

  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<Server>> redirected_ ABSL_GUARDED_BY(mutex_);  // known by redirects; stay to the end
  absl::flat_hash_map<uint64_t, std::shared_ptr<ExtendOperation>> operations_ ABSL_GUARDED_BY(mutex_);
  uint64_t started_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_SEQUENCE_SESSION_H_
