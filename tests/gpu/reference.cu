#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "tests/gpu/reference.h"

namespace tessera::gpu_test {
namespace {

constexpr int kThreads = 256;  // also keys a chunk, and the largest head_dim

template <typename Element>
__device__ double Load(const void* data, int64_t index) {
  return static_cast<double>(static_cast<float>(static_cast<const Element*>(data)[index]));
}

template <typename Element>
__device__ double Round(double value, bool rounds) {
  return rounds ? static_cast<double>(static_cast<float>(static_cast<Element>(static_cast<float>(value)))) : value;
}

__device__ double BlockReduce(double value, bool maximum) {
  __shared__ double partial[kThreads];
  partial[threadIdx.x] = value;
  __syncthreads();
  for (int width = kThreads / 2; width > 0; width /= 2) {
    if (threadIdx.x < width) {
      const double other = partial[threadIdx.x + width];
      // A NaN must not be lost in the maximum.
      partial[threadIdx.x] = !maximum                                      ? partial[threadIdx.x] + other
                             : isnan(other) || isnan(partial[threadIdx.x]) ? NAN
                             : other > partial[threadIdx.x]                ? other
                                                                           : partial[threadIdx.x];
    }
    __syncthreads();
  }
  const double result = partial[0];
  __syncthreads();
  return result;
}

// grid: (q_heads, rows); a block computes one row of one head.
template <typename Element>
__global__ void ReferenceRow(AttentionParams params, SequenceView sequence, bool rounds, double* o, double* lse) {
  const int64_t head = blockIdx.x;
  const int64_t row = blockIdx.y + static_cast<int64_t>(blockIdx.z) * gridDim.y;
  if (row >= sequence.q_len) return;
  const int64_t kv_head = head / (params.q_heads / params.kv_heads);
  const int64_t position = row + sequence.kv_len - sequence.q_len;
  auto sees = [&](int64_t key) {
    return (params.mask.left < 0 || key + params.mask.left >= position) &&
           (params.mask.right < 0 || key - params.mask.right <= position);
  };
  auto score = [&](int64_t key) {
    double dot = 0;
    float rounded_dot = 0;
    for (int c = 0; c < params.head_dim; ++c) {
      const double q = Load<Element>(sequence.q, row * sequence.q_strides.token + head * sequence.q_strides.head + c);
      const double k =
          Load<Element>(sequence.k, key * sequence.k_strides.token + kv_head * sequence.k_strides.head + c);
      dot += q * k;
      rounded_dot = fmaf(static_cast<float>(q), static_cast<float>(k), rounded_dot);
    }
    dot = Round<Element>((rounds ? rounded_dot : dot) * params.scale, rounds);
    return params.softcap > 0 ? Round<Element>(params.softcap * tanh(dot / params.softcap), rounds) : dot;
  };
  double maximum = -INFINITY;
  for (int64_t key = threadIdx.x; key < sequence.kv_len; key += kThreads) {
    if (!sees(key)) continue;
    const double s = score(key);
    if (isnan(s) || s > maximum) maximum = s;
    if (isnan(s)) break;
  }
  maximum = BlockReduce(maximum, true);
  double sum = 0;
  for (int64_t key = threadIdx.x; key < sequence.kv_len; key += kThreads) {
    if (sees(key)) sum += exp(score(key) - maximum);
  }
  sum = BlockReduce(sum, false);

  __shared__ double probability[kThreads];
  __shared__ bool visible[kThreads];
  double output = 0;
  for (int64_t chunk = 0; chunk < sequence.kv_len; chunk += kThreads) {
    const int64_t own = chunk + threadIdx.x;
    visible[threadIdx.x] = own < sequence.kv_len && sees(own);
    if (visible[threadIdx.x]) probability[threadIdx.x] = Round<Element>(exp(score(own) - maximum) / sum, rounds);
    __syncthreads();
    if (threadIdx.x < params.head_dim) {
      for (int i = 0; i < kThreads; ++i) {
        if (!visible[i]) continue;
        const double v = Load<Element>(
            sequence.v, (chunk + i) * sequence.v_strides.token + kv_head * sequence.v_strides.head + threadIdx.x);
        output = rounds ? fmaf(static_cast<float>(probability[i]), static_cast<float>(v), static_cast<float>(output))
                        : output + probability[i] * v;
      }
    }
    __syncthreads();
  }
  if (threadIdx.x < params.head_dim) {
    o[row * sequence.o_strides.token + head * sequence.o_strides.head + threadIdx.x] = Round<Element>(output, rounds);
  }
  if (threadIdx.x == 0 && lse != nullptr) {
    lse[row * sequence.lse_strides.token + head * sequence.lse_strides.head] =
        maximum == -INFINITY ? -INFINITY : maximum + log(sum);
  }
}

}  // namespace

cudaError_t ReferenceForward(const AttentionParams& params, const SequenceView& sequence, Rounding rounding, double* o,
                             double* lse, cudaStream_t stream) {
  if (sequence.q_len == 0) return cudaSuccess;
  constexpr int64_t kMaxGridY = 32768;
  const unsigned y = static_cast<unsigned>(sequence.q_len < kMaxGridY ? sequence.q_len : kMaxGridY);
  const dim3 grid(params.q_heads, y, static_cast<unsigned>((sequence.q_len + y - 1) / y));
  const bool rounds = rounding == Rounding::kStandard;
  switch (params.dtype) {
    case DType::kFloat32:
      ReferenceRow<float><<<grid, kThreads, 0, stream>>>(params, sequence, rounds, o, lse);
      break;
    case DType::kFloat16:
      ReferenceRow<__half><<<grid, kThreads, 0, stream>>>(params, sequence, rounds, o, lse);
      break;
    case DType::kBFloat16:
      ReferenceRow<__nv_bfloat16><<<grid, kThreads, 0, stream>>>(params, sequence, rounds, o, lse);
      break;
  }
  return cudaGetLastError();
}

}  // namespace tessera::gpu_test
