#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/ptx/barrier.h"
#include "kernels/cuda/ptx/store.h"
#include "kernels/cuda/testing/device_array.h"

namespace tessera::cuda {
namespace {

class StoreTest : public Sm90Test {};

// Matrix m holds 1000 * m + 10 * row + column; its rows go to memory in the order 31, 30 ...
__global__ void StoreFour(uint16_t* memory) {
  __shared__ alignas(16) uint16_t rows[32][8];
  const int lane = threadIdx.x;
  uint32_t words[4];
  for (int m = 0; m < 4; ++m) {
    const uint32_t low = 1000 * m + 10 * (lane / 4) + 2 * (lane % 4);
    words[m] = low | (low + 1) << 16;
  }
  ptx::StoreMatrix(ptx::SharedAddress(rows[31 - lane]), words);
  __syncwarp();
  for (int c = 0; c < 8; ++c) memory[lane * 8 + c] = rows[lane][c];
}

TEST_F(StoreTest, EachLaneGivesTheAddressOfOneRowOfOneMatrix) {
  const DeviceArray<uint16_t> memory(std::vector<uint16_t>(256));
  StoreFour<<<1, 32>>>(memory.data());
  const std::vector<uint16_t> read = memory.Read();
  for (int m = 0; m < 4; ++m) {
    for (int row = 0; row < 8; ++row) {
      for (int c = 0; c < 8; ++c) EXPECT_EQ(read[(31 - 8 * m - row) * 8 + c], 1000 * m + 10 * row + c);
    }
  }
}

}  // namespace
}  // namespace tessera::cuda
