// The CUDA runtime itself. It is linked statically and looks for the driver when first called, so programs that hold it
// start on machines without one.
#ifndef TESSERA_SERVER_DEVICE_CUDA_REAL_CUDA_CALLS_H_
#define TESSERA_SERVER_DEVICE_CUDA_REAL_CUDA_CALLS_H_

#include "server/device/cuda/cuda_calls.h"

namespace tessera {

// Lives as long as the process.
CudaCalls* GetRealCudaCalls();

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_CUDA_REAL_CUDA_CALLS_H_
