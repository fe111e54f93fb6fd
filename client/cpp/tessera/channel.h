// gRPC channels as this client wants them.
#ifndef TESSERA_CLIENT_CPP_TESSERA_CHANNEL_H_
#define TESSERA_CLIENT_CPP_TESSERA_CHANNEL_H_

#include <memory>
#include <string>

#include "client/cpp/tessera/endpoint.h"
#include "client/cpp/tessera/options.h"
#include "grpcpp/channel.h"

namespace tessera {

// A channel for unary calls, with a TCP connection of its own: no message limits, no compression, keepalive, and gRPC's
// retries as the policy says.
std::shared_ptr<grpc::Channel> MakeUnaryChannel(const Endpoint& endpoint, const ClientOptions& options);

// The same for streams, without gRPC's retries: with them, gRPC would keep every message of a stream for a retry of the
// stream until the server has answered something, and the memory of calls that are over with it.
std::shared_ptr<grpc::Channel> MakeStreamChannel(const Endpoint& endpoint, const ClientOptions& options);

// The service config (gRPC's JSON) that makes gRPC retry unary calls on UNAVAILABLE, with the server's pushback
// honoured, and on CANCELLED, which a server that shuts down may say instead; calls that are cancelled here are not
// retried. AttendStream is left out: the library retries its calls one by one.
std::string ServiceConfig(const RetryPolicy& policy);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_CHANNEL_H_
