#include <algorithm>
#include <cstdint>

#include "kernels/cuda/copy_pieces.h"

namespace tessera::cuda {
namespace {

// The list travels as kernel arguments: the fewer, the sooner it is there; 32 KB at most.
constexpr int kFewPieces = 8;
constexpr int kSomePieces = 160;
constexpr int kManyPieces = 1344;
constexpr int kThreads = 256;
// A grid has about so many blocks: one wave of an H200, which keeps both the host's bus and the device's memory busy.
constexpr size_t kBlocks = 1024;
// Reads under way in each thread: those of host memory take a microsecond and more.
constexpr int kUnroll = 4;

template <int kPieces>
struct PieceList {
  CopyPiece pieces[kPieces];
};

// grid: (blocks a piece, pieces)
template <int kPieces>
__global__ void __launch_bounds__(kThreads) CopyListed(const __grid_constant__ PieceList<kPieces> list) {
  const CopyPiece piece = list.pieces[blockIdx.y];
  const size_t threads = static_cast<size_t>(gridDim.x) * kThreads;
  const size_t first = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  const bool aligned = ((reinterpret_cast<uintptr_t>(piece.to) | reinterpret_cast<uintptr_t>(piece.from)) & 15) == 0;
  const size_t words = aligned ? piece.bytes / sizeof(uint4) : 0;
  auto* const to = static_cast<uint4*>(piece.to);
  const auto* const from = static_cast<const uint4*>(piece.from);
  for (size_t i = first; i < words; i += threads * kUnroll) {
    uint4 read[kUnroll] = {};
#pragma unroll
    for (int j = 0; j < kUnroll; ++j) {
      if (from != nullptr && i + j * threads < words) read[j] = from[i + j * threads];
    }
#pragma unroll
    for (int j = 0; j < kUnroll; ++j) {
      if (i + j * threads < words) to[i + j * threads] = read[j];
    }
  }
  auto* const to_bytes = static_cast<unsigned char*>(piece.to);
  const auto* const from_bytes = static_cast<const unsigned char*>(piece.from);
  for (size_t i = words * sizeof(uint4) + first; i < piece.bytes; i += threads) {
    to_bytes[i] = from_bytes == nullptr ? 0 : from_bytes[i];
  }
}

template <int kPieces>
cudaError_t Launch(const CopyPiece* pieces, size_t count, cudaStream_t stream) {
  PieceList<kPieces> list;
  std::copy_n(pieces, count, list.pieces);
  size_t longest = 1;
  for (size_t i = 0; i < count; ++i) longest = std::max(longest, pieces[i].bytes);
  const size_t useful = (longest + kThreads * sizeof(uint4) - 1) / (kThreads * sizeof(uint4));
  const size_t across = std::min(useful, std::max<size_t>(1, kBlocks / count));
  CopyListed<kPieces><<<dim3(static_cast<unsigned>(across), static_cast<unsigned>(count)), kThreads, 0, stream>>>(list);
  return cudaGetLastError();
}

}  // namespace

cudaError_t CopyPieces(const CopyPiece* pieces, size_t count, cudaStream_t stream) {
  while (count > 0) {
    const size_t part = std::min<size_t>(count, kManyPieces);
    const cudaError_t error = part <= kFewPieces    ? Launch<kFewPieces>(pieces, part, stream)
                              : part <= kSomePieces ? Launch<kSomePieces>(pieces, part, stream)
                                                    : Launch<kManyPieces>(pieces, part, stream);
    if (error != cudaSuccess) return error;
    pieces += part;
    count -= part;
  }
  return cudaSuccess;
}

}  // namespace tessera::cuda
