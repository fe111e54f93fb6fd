#include "tests/server/raw_rpc.h"

#include <vector>

#include "absl/synchronization/notification.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/slice.h"
#include "grpcpp/support/stub_options.h"

namespace tessera::testing {

grpc::ByteBuffer ToByteBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

grpc::Status RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& request, std::string* response) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  const grpc::ByteBuffer request_buffer = ToByteBuffer(request);
  grpc::ByteBuffer response_buffer;
  grpc::Status result;
  absl::Notification done;
  stub.UnaryCall(&context, method, grpc::StubOptions(), &request_buffer, &response_buffer, [&](grpc::Status status) {
    result = std::move(status);
    done.Notify();
  });
  done.WaitForNotification();
  std::vector<grpc::Slice> slices;
  if (response_buffer.Valid() && response_buffer.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) response->append(slice.begin(), slice.end());
  }
  return result;
}

}  // namespace tessera::testing
