// How many keys' terms a row that is computed key by key adds up before they join its sum.
#ifndef TESSERA_KERNELS_CUDA_SUMMED_KEYS_H_
#define TESSERA_KERNELS_CUDA_SUMMED_KEYS_H_

#include <cstdint>

namespace tessera::cuda {

// One running sum over all keys would round more the more keys there are.
inline constexpr int32_t kSummedKeys = 64;

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_SUMMED_KEYS_H_
