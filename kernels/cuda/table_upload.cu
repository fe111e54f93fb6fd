#include <algorithm>
#include <cstring>

#include "kernels/cuda/ptx/fence.h"
#include "kernels/cuda/table_upload.h"

namespace tessera::cuda {
namespace {

// Kernel arguments hold 4 KB cheaply and 32 KB at most.
constexpr int kSmallWords = 224;
constexpr int kLargeWords = 2016;
constexpr int kMostZeros = 1 << 28;  // words, of one launch

template <int kWords>
struct Piece {
  uint4 words[kWords];
  uint4* device;
  int count;
  int zeros;  // after them
};

template <int kWords>
__global__ void StorePiece(const __grid_constant__ Piece<kWords> piece) {
#if __CUDA_ARCH__ >= 900
  ptx::GridDependencyLaunch();  // the forward kernel may set itself up meanwhile
#endif
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < piece.count) {
    piece.device[i] = piece.words[i];
  } else if (i - piece.count < piece.zeros) {
    piece.device[i] = uint4{0, 0, 0, 0};
  }
}

template <int kWords>
cudaError_t Launch(uint4* device, const unsigned char* host, int count, int zeros, cudaStream_t stream) {
  Piece<kWords> piece;
  if (count > 0) std::memcpy(piece.words, host, count * sizeof(uint4));
  piece.device = device;
  piece.count = count;
  piece.zeros = zeros;
  constexpr int kThreads = 64;  // many small blocks: arguments are read one word at a time
  StorePiece<kWords><<<(count + zeros + kThreads - 1) / kThreads, kThreads, 0, stream>>>(piece);
  return cudaGetLastError();
}

}  // namespace

cudaError_t UploadTable(void* device, const void* host, size_t bytes, size_t zero_bytes, cudaStream_t stream) {
  uint4* destination = static_cast<uint4*>(device);
  const unsigned char* source = static_cast<const unsigned char*>(host);
  size_t words = bytes / sizeof(uint4);
  size_t zeros = zero_bytes / sizeof(uint4);
  while (words + zeros > 0) {
    const int count = static_cast<int>(std::min<size_t>(words, kLargeWords));
    const int cleared = words > kLargeWords ? 0 : static_cast<int>(std::min<size_t>(zeros, kMostZeros));
    const cudaError_t error = count == 0             ? Launch<1>(destination, source, count, cleared, stream)
                              : count <= kSmallWords ? Launch<kSmallWords>(destination, source, count, cleared, stream)
                                                     : Launch<kLargeWords>(destination, source, count, cleared, stream);
    if (error != cudaSuccess) return error;
    destination += count + cleared;
    source += count * sizeof(uint4);
    words -= count;
    zeros -= cleared;
  }
  return cudaSuccess;
}

}  // namespace tessera::cuda
