#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/ptx/fence.h"
#include "kernels/cuda/testing/device_array.h"

namespace tessera::cuda {
namespace {

class FenceTest : public Sm90Test {};

constexpr int kWords = 1 << 16;

// Lets the next kernel start at once, dawdles, then writes.
__global__ void WriteLate(uint32_t* words, uint32_t value) {
  ptx::GridDependencyLaunch();
  const int64_t start = clock64();
  while (clock64() - start < 100000) {
  }
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < kWords; i += gridDim.x * blockDim.x) words[i] = value;
}

__global__ void CountWritten(const uint32_t* words, uint32_t value, uint32_t* count) {
  ptx::GridDependencyWait();
  uint32_t written = 0;
  for (int i = threadIdx.x; i < kWords; i += blockDim.x) written += words[i] == value;
  atomicAdd(count, written);
}

TEST_F(FenceTest, DependentGridSeesWhatTheOneBeforeItWrote) {
  const DeviceArray<uint32_t> words(std::vector<uint32_t>(kWords, 0));
  for (uint32_t value = 1; value <= 20; ++value) {
    const DeviceArray<uint32_t> count(std::vector<uint32_t>(1, 0));
    WriteLate<<<4, 128>>>(words.data(), value);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(256);
    config.attrs = &attribute;
    config.numAttrs = 1;
    const uint32_t* read = words.data();
    ASSERT_EQ(cudaLaunchKernelEx(&config, CountWritten, read, value, count.data()), cudaSuccess);
    EXPECT_EQ(count.Read()[0], static_cast<uint32_t>(kWords));
  }
}

}  // namespace
}  // namespace tessera::cuda
