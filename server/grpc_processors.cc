#include "server/grpc_processors.h"

#include <grpc/support/cpu.h>
#include <sched.h>

#include <algorithm>
#include <thread>

namespace {

unsigned Told() {
  // Those that the process may use, which need not be all that there are.
  static const unsigned told = tessera::GrpcProcessors(std::max(1U, std::thread::hardware_concurrency()));
  return told;
}

}  // namespace

// Linked into a program, these come before gRPC's own. gRPC keeps arrays of the one length and indexes them with the other.
unsigned gpr_cpu_num_cores() { return Told(); }
unsigned gpr_cpu_current_cpu() { return static_cast<unsigned>(std::max(0, sched_getcpu())) % Told(); }
