// A kernel that breaks the device it runs on, for tests of what happens then.
#ifndef TESSERA_TESTS_GPU_TRAP_H_
#define TESSERA_TESTS_GPU_TRAP_H_

#include <cuda_runtime_api.h>

namespace tessera::testing {

// The process has lost the device once the kernel has run.
cudaError_t LaunchTrap(cudaStream_t stream);

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_GPU_TRAP_H_
