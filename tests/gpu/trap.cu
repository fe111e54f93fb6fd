#include "tests/gpu/trap.h"

namespace tessera::testing {
namespace {

__global__ void Trap() { __trap(); }

}  // namespace

cudaError_t LaunchTrap(cudaStream_t stream) {
  Trap<<<1, 1, 0, stream>>>();
  return cudaGetLastError();
}

}  // namespace tessera::testing
