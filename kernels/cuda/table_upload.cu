#include <algorithm>
#include <cstring>

#include "kernels/cuda/ptx/fence.h"
#include "kernels/cuda/table_upload.h"

namespace tessera::cuda {
namespace {

// Kernel arguments hold 4 KB cheaply and 32 KB at most.
constexpr int kSmallWords = 224;
constexpr int kLargeWords = 2016;

template <int kWords>
struct Piece {
  uint4 words[kWords];
  uint4* device;
  int count;
};

template <int kWords>
__global__ void StorePiece(const __grid_constant__ Piece<kWords> piece) {
#if __CUDA_ARCH__ >= 900
  ptx::GridDependencyLaunch();  // the forward kernel may set itself up meanwhile
#endif
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < piece.count) piece.device[i] = piece.words[i];
}

template <int kWords>
cudaError_t Launch(uint4* device, const unsigned char* host, int count, cudaStream_t stream) {
  Piece<kWords> piece;
  std::memcpy(piece.words, host, count * sizeof(uint4));
  piece.device = device;
  piece.count = count;
  constexpr int kThreads = 64;  // many small blocks: arguments are read one word at a time
  StorePiece<kWords><<<(count + kThreads - 1) / kThreads, kThreads, 0, stream>>>(piece);
  return cudaGetLastError();
}

}  // namespace

cudaError_t UploadTable(void* device, const void* host, size_t bytes, cudaStream_t stream) {
  uint4* destination = static_cast<uint4*>(device);
  const unsigned char* source = static_cast<const unsigned char*>(host);
  size_t words = bytes / sizeof(uint4);
  while (words > 0) {
    const int count = static_cast<int>(std::min<size_t>(words, kLargeWords));
    const cudaError_t error = count <= kSmallWords ? Launch<kSmallWords>(destination, source, count, stream)
                                                   : Launch<kLargeWords>(destination, source, count, stream);
    if (error != cudaSuccess) return error;
    destination += count;
    source += count * sizeof(uint4);
    words -= count;
  }
  return cudaSuccess;
}

}  // namespace tessera::cuda
