// RPCs in raw bytes: for services whose stubs are not at hand, and for messages that no stub would write.
#ifndef TESSERA_TESTS_SERVER_RAW_RPC_H_
#define TESSERA_TESTS_SERVER_RAW_RPC_H_

#include <memory>
#include <string>

#include "grpcpp/channel.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/status.h"

namespace tessera::testing {

grpc::ByteBuffer ToByteBuffer(const std::string& bytes);

// Sends one message to `method` ("/package.Service/Method") and takes one back. Works with a streaming method that
// answers one message with one.
grpc::Status RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& request, std::string* response);

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_RAW_RPC_H_
