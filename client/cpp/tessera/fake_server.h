// For tests: a Tessera server that computes nothing, does as it is told, and remembers what it saw.
//
// Its answer to a call is a function of every input byte: o is q with each byte one higher, and LSE row i is a checksum
// of k and v, plus i.
#ifndef TESSERA_CLIENT_CPP_TESSERA_FAKE_SERVER_H_
#define TESSERA_CLIENT_CPP_TESSERA_FAKE_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/server.h"
#include "grpcpp/support/sync_stream.h"
#include "tessera/v1/attention.grpc.pb.h"
#include "tessera/v1/server.grpc.pb.h"

namespace tessera {

class FakeServer {
 public:
  using Stream = grpc::ServerReaderWriter<v1::AttendStreamResponse, v1::AttendStreamRequest>;

  // A call whose last byte is in.
  struct Call {
    v1::AttendHeader header;
    std::string payload;  // q, k, v end to end
    int number = 0;       // calls complete so far, this one included
    bool unary = false;
    uint64_t timeout_us = 0;
    int connections = 1;
  };

  enum class Deed {
    kAnswer,
    kFail,         // with `status`, `retry_after_ms`
    kHold,         // until Release
    kBreakStream,  // ends the RPC with `status`
    kSend,         // sends `messages` (their id set right) instead of an answer
  };
  struct Decision {
    Deed deed = Deed::kAnswer;
    grpc::Status status;
    int retry_after_ms = 0;
    std::vector<v1::AttendStreamResponse> messages;
  };
  // Runs on the server's threads, one at a time.
  using Judge = std::function<Decision(const Call&)>;

  FakeServer();
  ~FakeServer();

  // "127.0.0.1:port": no name to look up.
  const std::string& target() const { return target_; }

  void SetJudge(Judge judge);
  // Payload of a message of an answer, in bytes.
  void SetAnswerChunk(int64_t bytes);
  // From now on no stream reads beyond the opening message of a call. Destroying the server, or the client's end of the
  // stream, wakes them.
  void StopReading();

  // Waits until so many calls are held; then answers them, last one first.
  void AwaitHeld(int count);
  void ReleaseHeldInReverse();

  // Waits until so many cancel messages have come.
  void AwaitCancellations(int count);
  void AwaitStreams(int count);

  int calls() const;
  int streams() const;
  // Waits until so many streams have ended; returns how many of them the client cancelled.
  int AwaitStreamEnds(int count);
  std::set<std::string> peers() const;
  std::vector<std::string> tenants() const;

  // What Answer makes of a call.
  static std::pair<std::string, std::string> Expected(const v1::AttendHeader& header, const std::string& payload);

 private:
  // One stream that a call uses.
  struct Leg {
    Stream* stream = nullptr;
    absl::Mutex* write_mutex = nullptr;
    uint64_t id = 0;
  };
  struct Assembly {
    Call call;
    std::vector<Leg> legs;  // by stripe index
    size_t opened = 0;
    size_t received = 0;
  };

  class Attention;
  class Facts;

  static size_t PayloadBytes(const v1::AttendHeader& header);
  // The end that the RPC is to be given, where the call breaks it.
  grpc::Status ServeStream(grpc::ServerContext* context, Stream* stream);
  grpc::Status ServeUnary(grpc::ServerContext* context, const v1::AttendRequest& request, v1::AttendResponse* response);
  void Note(const grpc::ServerContext& context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Answer(const Assembly& assembly) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Send(const Leg& leg, v1::AttendStreamResponse message);

  std::unique_ptr<Attention> attention_;
  std::unique_ptr<Facts> facts_;
  std::unique_ptr<grpc::Server> server_;
  std::string target_;

  mutable absl::Mutex mutex_;
  Judge judge_ ABSL_GUARDED_BY(mutex_);
  int64_t answer_chunk_ ABSL_GUARDED_BY(mutex_) = 1 << 20;
  bool stop_reading_ ABSL_GUARDED_BY(mutex_) = false;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int streams_ ABSL_GUARDED_BY(mutex_) = 0;
  int ended_streams_ ABSL_GUARDED_BY(mutex_) = 0;
  int cancelled_streams_ ABSL_GUARDED_BY(mutex_) = 0;
  int cancellations_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::string> peers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> tenants_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<const Stream*, uint64_t>, std::shared_ptr<Assembly>> assemblies_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<Assembly>> transfers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Assembly>> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_FAKE_SERVER_H_
