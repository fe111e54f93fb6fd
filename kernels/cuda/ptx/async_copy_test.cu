#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/barrier.h"
#include "kernels/cuda/testing/device_array.h"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 64;
constexpr uint32_t kPoison = 0xABABABAB;

// Thread i copies chunk i in a first group, valid where i % 3 != 0, and chunk 64 + i in a second one. Writes out what
// lies in shared memory when the first group is complete (first half) and when both are (second half).
__global__ void CopyTwoGroups(const uint4* source, uint4* first, uint4* second) {
  __shared__ uint4 shared[2 * kThreads];
  const int i = threadIdx.x;
  shared[i] = shared[kThreads + i] = {kPoison, kPoison, kPoison, kPoison};
  ptx::AsyncCopy16(ptx::SharedAddress(&shared[i]), source + i, i % 3 != 0);
  ptx::AsyncCopyCommit();
  ptx::AsyncCopy16(ptx::SharedAddress(&shared[kThreads + i]), source + kThreads + i, true);
  ptx::AsyncCopyCommit();
  ptx::AsyncCopyWait<1>();
  first[i] = shared[i];
  ptx::AsyncCopyWait<0>();
  __syncthreads();
  second[i] = shared[2 * kThreads - 1 - i];
}

TEST(AsyncCopyTest, CopiesOrZeroesAndCompletesInGroups) {
  std::vector<uint4> host(2 * kThreads);
  for (uint32_t i = 0; i < host.size(); ++i) host[i] = {4 * i + 1, 4 * i + 2, 4 * i + 3, 4 * i + 4};
  const DeviceArray<uint4> source(host), first{std::vector<uint4>(kThreads)}, second{std::vector<uint4>(kThreads)};
  CopyTwoGroups<<<1, kThreads>>>(source.data(), first.data(), second.data());
  const std::vector<uint4> in_first = first.Read(), in_second = second.Read();
  for (uint32_t i = 0; i < kThreads; ++i) {
    EXPECT_EQ(in_first[i].x, i % 3 == 0 ? 0 : host[i].x) << i;
    EXPECT_EQ(in_first[i].w, i % 3 == 0 ? 0 : host[i].w) << i;
    EXPECT_EQ(in_second[i].x, host[2 * kThreads - 1 - i].x) << i;
    EXPECT_EQ(in_second[i].w, host[2 * kThreads - 1 - i].w) << i;
  }
}

// A chunk that is not valid is not read: its address may be anything.
__global__ void CopyFromNowhere(uint4* result) {
  __shared__ uint4 shared;
  if (threadIdx.x == 0) {
    shared = {kPoison, kPoison, kPoison, kPoison};
    ptx::AsyncCopy16(ptx::SharedAddress(&shared), reinterpret_cast<const void*>(uint64_t{1} << 60), false);
    ptx::AsyncCopyCommit();
    ptx::AsyncCopyWait<0>();
    *result = shared;
  }
}

TEST(AsyncCopyTest, ReadsNothingWhereNotValid) {
  const DeviceArray<uint4> result(std::vector<uint4>(1, {1, 1, 1, 1}));
  CopyFromNowhere<<<1, 32>>>(result.data());
  const uint4 read = result.Read()[0];
  EXPECT_EQ(read.x | read.y | read.z | read.w, 0u);
}

}  // namespace
}  // namespace tessera::cuda
