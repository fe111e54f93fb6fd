// A gRPC channel as this client wants it.
#ifndef TESSERA_CLIENT_CPP_TESSERA_CHANNEL_H_
#define TESSERA_CLIENT_CPP_TESSERA_CHANNEL_H_

#include <memory>
#include <string>

#include "client/cpp/tessera/options.h"
#include "grpcpp/channel.h"

namespace tessera {

// A channel with TCP connections of its own: no message limits, no compression, keepalive, and retries of unary calls
// as the policy says.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target, const ClientOptions& options);

// The service config (gRPC's JSON) that makes gRPC retry unary calls on UNAVAILABLE and RESOURCE_EXHAUSTED, with the
// server's pushback honoured. AttendStream is left out: the library retries its calls one by one.
std::string ServiceConfig(const RetryPolicy& policy);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_CHANNEL_H_
