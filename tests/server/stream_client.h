// The client's end of an AttendStream, in generated protobuf classes.
#ifndef TESSERA_TESTS_SERVER_STREAM_CLIENT_H_
#define TESSERA_TESTS_SERVER_STREAM_CLIENT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"
#include "tessera/v1/attention.grpc.pb.h"

namespace tessera::testing {

// An answer, put together from its messages.
struct StreamedAnswer {
  std::optional<v1::AttendResult> result;
  v1::CallStatus status;
  std::string payload;  // chunks in the order they came
  uint64_t begin = 0;   // of the first chunk, within o and LSE
  int messages = 0;
  bool contiguous = true;  // every chunk began where the one before it ended
};

// One thread at a time.
class StreamClient {
 public:
  explicit StreamClient(v1::AttentionService::Stub& stub, const std::string& tenant = "",
                        absl::Duration timeout = absl::InfiniteDuration());
  StreamClient(const StreamClient&) = delete;
  StreamClient& operator=(const StreamClient&) = delete;
  // Cancels.
  ~StreamClient();

  bool Send(const v1::AttendStreamRequest& message) { return stream_->Write(message); }
  void Send(const std::vector<v1::AttendStreamRequest>& messages);
  void SendCancel(uint64_t id);
  void HalfClose() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }

  // Reads until the answer to `id` is complete, keeping what comes for others. Code UNKNOWN where the stream ended
  // first.
  StreamedAnswer Await(uint64_t id);
  // Reads the next message; nothing at the stream's end.
  std::optional<v1::AttendStreamResponse> Read();
  // Reads to the end. Ids whose answers came complete are in answers().
  grpc::Status Finish();
  // Complete answers that Await has not given out, in the order of completion.
  const std::vector<std::pair<uint64_t, StreamedAnswer>>& answers() const { return answers_; }

 private:
  // Reads one message into the answers; false at the end.
  bool Take();

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AttendStreamRequest, v1::AttendStreamResponse>> stream_;
  std::map<uint64_t, StreamedAnswer> partial_;
  std::vector<std::pair<uint64_t, StreamedAnswer>> answers_;
  bool finished_ = false;
};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_STREAM_CLIENT_H_
