// How many processors gRPC believes to have.
//
// gRPC 1.51 reads and handles a server's messages on a thread for every two processors, 2 to 16 of them, which take turns.
// That is too many for small messages: each turn goes to a thread that has slept on a processor that has slept. With half
// as many, small calls are answered faster, one by one and in their thousands (docs/gpu_device.md). There is no setting;
// but gRPC asks two functions of its support library, grpc/support/cpu.h, and a program that defines them is asked itself.
#ifndef TESSERA_SERVER_GRPC_PROCESSORS_H_
#define TESSERA_SERVER_GRPC_PROCESSORS_H_

namespace tessera {

// What gRPC is told where the process may use `processors`: half of them, but 8 at least, or all.
constexpr unsigned GrpcProcessors(unsigned processors) {
  constexpr unsigned kLeast = 8;
  if (processors <= kLeast) return processors;
  return processors / 2 < kLeast ? kLeast : processors / 2;
}

}  // namespace tessera

#endif  // TESSERA_SERVER_GRPC_PROCESSORS_H_
