// Sends the workload's bytes, and nothing but bytes, to an echo server.
#ifndef TESSERA_CLIENT_CPP_LOAD_ECHO_TARGET_H_
#define TESSERA_CLIENT_CPP_LOAD_ECHO_TARGET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cpp/load/call_shape.h"
#include "client/cpp/load/payload_pool.h"
#include "client/cpp/load/target.h"

namespace tessera::load {

struct EchoOptions {
  std::string address;
  int connections = 4;
  bool stream = true;  // false: unary
  // Streams: a call with this many bytes either way is striped over all connections, as the client library does.
  int64_t stripe_threshold_bytes = int64_t{4} << 20;
  absl::Duration timeout = absl::Seconds(30);  // of a unary call, and of connecting
};

// Every call sends its shape's request bytes and is answered with its shape's response bytes, in the messages that the
// same transport of Attend would use. Thread-safe.
class EchoTarget : public Target {
 public:
  // What it points to must outlive it.
  EchoTarget(const EchoOptions& options, absl::Span<const CallShape> shapes, const PayloadPool* payloads);

  // Ends calls in flight with CANCELLED and waits for their callbacks.
  ~EchoTarget() override;

  // UNAVAILABLE unless every connection is made within the timeout.
  absl::Status AwaitConnected();

  void Issue(const Call& call, AnswerCallback done) override;

 private:
  class Connection;

  void IssueUnary(size_t shape, absl::Span<const std::byte> payload, AnswerCallback done);
  void IssueStream(size_t shape, absl::Span<const std::byte> payload, AnswerCallback done);
  // The connection of the next call, in turn.
  Connection* NextConnection();

  const EchoOptions options_;
  const std::vector<CallShape> shapes_;
  const PayloadPool* const payloads_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::atomic<uint64_t> issued_{0};
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_ECHO_TARGET_H_
