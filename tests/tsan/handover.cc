// Whether ThreadSanitizer sees what grpc_calls.cc shows it, and no more than that.
//
//   tsan_handover ordered   reads, in the callback of an RPC, what was written before the RPC began: no report
//   tsan_handover racing    writes on both sides while the RPC is under way: a report that names RacingWrite
#include <cstring>

#include "absl/synchronization/notification.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

namespace tessera {
namespace {

[[gnu::noinline]] void RacingWrite(int* value) { ++*value; }

int HandOver(bool racing) {
  int before = 0;
  int during = 0;
  int read = 0;
  absl::Notification done;
  grpc::GenericStub stub(grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer response;
  before = 1;
  // Nobody listens: the RPC fails, on a thread of gRPC's.
  stub.UnaryCall(&context, "/nobody/Listens", {}, &request, &response, [&](const grpc::Status&) {
    read = before;
    if (racing) RacingWrite(&during);
    done.Notify();
  });
  if (racing) RacingWrite(&during);
  done.WaitForNotification();
  return read == 1 ? 0 : 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  if (argc != 2) return 64;
  return tessera::HandOver(std::strcmp(argv[1], "racing") == 0);
}
