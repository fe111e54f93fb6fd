#include "server/grpc_processors.h"

#include <grpc/support/cpu.h>
#include <sched.h>

#include <algorithm>
#include <thread>

namespace {

// What gRPC is told, from first to last.
unsigned ToldProcessors() {
  static const unsigned told = tessera::GrpcProcessors(tessera::UsableProcessors());
  return told;
}

}  // namespace

namespace tessera {

unsigned UsableProcessors() {
  cpu_set_t set;
  const bool known = sched_getaffinity(0, sizeof(set), &set) == 0;
  return known ? static_cast<unsigned>(CPU_COUNT(&set)) : std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace tessera

// Linked into a program, these come before gRPC's own. gRPC keeps arrays of the one length and indexes them with the
// other.
__attribute__((visibility("default"))) unsigned gpr_cpu_num_cores() { return ToldProcessors(); }
__attribute__((visibility("default"))) unsigned gpr_cpu_current_cpu() {
  return static_cast<unsigned>(std::max(0, sched_getcpu())) % ToldProcessors();
}
