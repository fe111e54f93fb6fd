#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/ptx/barrier.h"
#include "kernels/cuda/ptx/fence.h"
#include "kernels/cuda/testing/device_array.h"

namespace tessera::cuda {
namespace {

class BarrierTest : public Sm90Test {};

// One thread, a barrier of two arrivals: what a wait for either parity says after each arrival of three phases.
__global__ void Phases(int* says) {
  __shared__ uint64_t barrier;
  ptx::BarrierInit(&barrier, 2);
  ptx::FenceBarrierInit();
  for (int arrival = 0; arrival <= 6; ++arrival) {
    if (arrival > 0) ptx::BarrierArrive(&barrier);
    says[2 * arrival] = ptx::BarrierTryWait(&barrier, 0);
    says[2 * arrival + 1] = ptx::BarrierTryWait(&barrier, 1);
  }
}

TEST_F(BarrierTest, PhaseCompletesWithItsLastArrival) {
  const DeviceArray<int> says(std::vector<int>(14, -1));
  Phases<<<1, 1>>>(says.data());
  const std::vector<int> read = says.Read();
  for (int arrival = 0; arrival <= 6; ++arrival) {
    // A barrier says of its current phase that it is not complete and of the one before that it is.
    const int current = arrival / 2 % 2;
    EXPECT_EQ(read[2 * arrival + current], 0) << "after " << arrival;
    EXPECT_EQ(read[2 * arrival + 1 - current], 1) << "after " << arrival;
  }
}

constexpr int kItems = 1000;

// Thread 0 hands items through one slot to the 64 threads of warps 1 and 2; each adds up what it saw.
__global__ void HandOver(uint64_t* sums) {
  __shared__ uint64_t full, empty;
  __shared__ volatile int slot;
  if (threadIdx.x == 0) {
    ptx::BarrierInit(&full, 1);
    ptx::BarrierInit(&empty, 64);
    ptx::FenceBarrierInit();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int item = 0; item < kItems; ++item) {
      ptx::BarrierWait(&empty, item % 2 ^ 1);  // the first passes at once
      slot = item * item;
      ptx::BarrierArrive(&full);
    }
  } else if (threadIdx.x >= 32) {
    uint64_t sum = 0;
    for (int item = 0; item < kItems; ++item) {
      ptx::BarrierWait(&full, item % 2);
      sum = sum * 3 + slot;
      ptx::BarrierArrive(&empty);
    }
    sums[threadIdx.x - 32] = sum;
  }
}

TEST_F(BarrierTest, HandsEveryItemToEveryReaderInOrder) {
  const DeviceArray<uint64_t> sums(std::vector<uint64_t>(64));
  HandOver<<<1, 96>>>(sums.data());
  uint64_t expected = 0;
  for (int item = 0; item < kItems; ++item) expected = expected * 3 + item * item;
  for (uint64_t sum : sums.Read()) EXPECT_EQ(sum, expected);
}

// Bytes announced by BarrierArriveExpect hold the phase back even when every thread has arrived.
__global__ void Expect(int* says) {
  __shared__ uint64_t barrier;
  ptx::BarrierInit(&barrier, 1);
  ptx::FenceBarrierInit();
  ptx::BarrierArriveExpect(&barrier, 0);
  says[0] = ptx::BarrierTryWait(&barrier, 0);
  ptx::BarrierArriveExpect(&barrier, 16);
  says[1] = ptx::BarrierTryWait(&barrier, 1);
}

TEST_F(BarrierTest, PhaseWaitsForAnnouncedBytes) {
  const DeviceArray<int> says(std::vector<int>(2, -1));
  Expect<<<1, 1>>>(says.data());
  EXPECT_EQ(says.Read(), (std::vector<int>{1, 0}));
}

constexpr int kTurns = 100;

// Two warpgroups append to one log, a token of named barriers going round: 1 + w hands it to warpgroup w.
__global__ void TakeTurns(int* log) {
  __shared__ volatile int length;
  if (threadIdx.x == 0) length = 0;
  __syncthreads();
  const int warpgroup = threadIdx.x / 128;
  if (warpgroup == 0) ptx::NamedBarrierArrive(1, 256);
  for (int turn = 0; turn < kTurns; ++turn) {
    ptx::NamedBarrierSync(1 + warpgroup, 256);
    if (threadIdx.x % 128 == 0) {
      log[length] = warpgroup;
      length = length + 1;
    }
    __syncwarp();
    const bool last = turn == kTurns - 1 && warpgroup == 1;  // nobody waits for it
    if (!last) ptx::NamedBarrierArrive(2 - warpgroup, 256);
  }
}

TEST_F(BarrierTest, NamedBarriersPassATokenRound) {
  const DeviceArray<int> log(std::vector<int>(2 * kTurns, -1));
  TakeTurns<<<1, 256>>>(log.data());
  const std::vector<int> read = log.Read();
  for (int i = 0; i < 2 * kTurns; ++i) EXPECT_EQ(read[i], i % 2) << i;
}

}  // namespace
}  // namespace tessera::cuda
