#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/ptx/registers.h"
#include "kernels/cuda/testing/device_array.h"

namespace tessera::cuda {
namespace {

class RegistersTest : public Sm90Test {};

constexpr int kValues = 200;  // live at once in a thread: more than the 168 registers that the block starts with

// 384 threads start with 168 registers each; warpgroup 0 goes down to 40, the others up to 232.
__global__ void __launch_bounds__(384, 1) Exchange(const float* in, int rounds, float* out) {
  if (threadIdx.x < 128) {
    ptx::RegistersDecrease<40>();
    out[threadIdx.x] = in[threadIdx.x];
    return;
  }
  ptx::RegistersIncrease<232>();
  float value[kValues];
#pragma unroll
  for (int i = 0; i < kValues; ++i) value[i] = in[i];
  for (int round = 0; round < rounds; ++round) {
    // Every value depends on its neighbour's of the round before, so all of them stay live.
    const float first = value[0];
#pragma unroll
    for (int i = 0; i < kValues - 1; ++i) value[i] = value[i + 1] + 1.0f;
    value[kValues - 1] = first + 1.0f;
  }
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kValues; ++i) sum += value[i] * static_cast<float>(i);
  out[threadIdx.x] = sum;
}

TEST_F(RegistersTest, MoveFromOneWarpgroupToTheOthers) {
  std::vector<float> in(kValues);
  for (int i = 0; i < kValues; ++i) in[i] = static_cast<float>(i % 7);
  const DeviceArray<float> source(in), out(std::vector<float>(384, -1.0f));
  constexpr int kRounds = 3;
  Exchange<<<2, 384>>>(source.data(), kRounds, out.data());
  float sum = 0.0f;
  for (int i = 0; i < kValues; ++i) sum += (in[(i + kRounds) % kValues] + kRounds) * static_cast<float>(i);
  const std::vector<float> read = out.Read();
  for (int thread = 0; thread < 384; ++thread) {
    EXPECT_EQ(read[thread], thread < 128 ? in[thread] : sum) << thread;
  }
}

}  // namespace
}  // namespace tessera::cuda
