// How a Client connects, cuts work up and retries.
#ifndef TESSERA_CLIENT_CPP_TESSERA_OPTIONS_H_
#define TESSERA_CLIENT_CPP_TESSERA_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "grpcpp/security/credentials.h"

namespace tessera {

// How an Attend call travels. docs/wire.md has the figures behind kAuto.
enum class Transport {
  kAuto,    // kStream: pipelined over long-lived streams; large calls are cut into chunks and striped over connections
  kUnary,   // one RPC and one message a call; at most ClientOptions::unary_limit_bytes
  kStream,  // always AttendStream
};

// Of calls that end with UNAVAILABLE, which includes a CANCELLED that the server says, or RESOURCE_EXHAUSTED; nothing
// else is tried again, nor is a unary call that ends with RESOURCE_EXHAUSTED and no pushback: its message is too large
// for the transport. The delay is the server's pushback where it names one; otherwise it grows from initial_backoff by
// backoff_multiplier up to max_backoff, and a random fifth of it either way. A retry that could not start before the
// deadline is not made.
struct RetryPolicy {
  int max_attempts = 4;  // the first one included; 1 turns retries off; gRPC itself, which tries unary calls again
                         // after UNAVAILABLE, takes at most 5 and waits 10 ms at least
  absl::Duration initial_backoff = absl::Milliseconds(50);
  absl::Duration max_backoff = absl::Seconds(2);
  double backoff_multiplier = 2;
};

struct ClientOptions {
  // Every address that the target's name has is a server of its own, among which calls are spread: a headless Service.
  // The name is looked up again now and then. Otherwise gRPC takes the first address that answers.
  bool every_address = false;
  // TCP connections to a server, at least 1. Small calls go to the one with the fewest bytes outstanding; large ones
  // use several.
  int connections = 4;
  // Payload of one message of a stream.
  int64_t chunk_bytes = int64_t{1} << 20;
  // A call whose q, k, v (or whose o, LSE) take at least this much is striped over several connections.
  int64_t stripe_threshold_bytes = int64_t{4} << 20;
  // Largest request or answer of a unary call; protobuf and gRPC end at 2 GiB.
  int64_t unary_limit_bytes = int64_t{1} << 30;
  Transport transport = Transport::kAuto;
  // Of a call that names none. Infinite: no deadline.
  absl::Duration default_timeout = absl::InfiniteDuration();
  // Sent as metadata `tessera-tenant`, by which the server shares its time fairly. Empty: not sent.
  std::string tenant;
  RetryPolicy retry;
  // Ping on a quiet connection with calls or streams open, and how long its answer may take.
  absl::Duration keepalive_time = absl::Seconds(30);
  absl::Duration keepalive_timeout = absl::Seconds(10);
  // A call that ends while a stream still holds some of its bytes unsent, because the server does not read, waits this
  // long before the stream is given up, and with it the other calls on it.
  absl::Duration stall_timeout = absl::Seconds(2);
  // Null: plain text. security.h makes them of files.
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  // With TLS: the name that the server's certificate must bear. Empty: the target's host.
  std::string server_name;
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_OPTIONS_H_
