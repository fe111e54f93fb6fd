// How many processors gRPC believes to have.
//
// gRPC 1.51 reads and handles a server's messages on a thread for every two processors, 2 to 16 of them, which take
// turns. That is too many for small messages: each turn goes to a thread that has slept on a processor that has slept.
// Fewer threads answer small calls faster, one by one and in their thousands (docs/gpu_device.md, "How many threads
// read"). There is no setting; but gRPC asks two functions of its support library, grpc/support/cpu.h, and a program
// that defines them is asked itself. It sizes its executor, and what it divides to keep threads apart, by the same
// number.
#ifndef TESSERA_SERVER_GRPC_PROCESSORS_H_
#define TESSERA_SERVER_GRPC_PROCESSORS_H_

namespace tessera {

// Those that the process may use.
unsigned UsableProcessors();

// What gRPC is told where the process may use `processors`: half of them, but 12 at least, or all. So from 13
// processors on gRPC has fewer threads, half as many from 24 to 32, and from 64 on its most, 16. At least 6 threads,
// for large messages need several: 2 collapsed under small ones on 16 processors, and 4 had less S=128 than 8 on 32.
constexpr unsigned GrpcProcessors(unsigned processors) {
  constexpr unsigned kLeast = 12;
  if (processors <= kLeast) return processors;
  return processors / 2 < kLeast ? kLeast : processors / 2;
}

}  // namespace tessera

#endif  // TESSERA_SERVER_GRPC_PROCESSORS_H_
