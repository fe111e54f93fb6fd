#include "server/device/cuda/device_memory.h"

#include <utility>

#include "gtest/gtest.h"
#include "server/device/cuda/testing/fake_cuda_calls.h"

namespace tessera {
namespace {

TEST(DeviceMemory, BlocksAreAccountedForExactly) {
  FakeCudaCalls calls(1, 1 << 20);
  const auto memory = *DeviceMemory::Take(0, 4096 + 100, &calls);
  EXPECT_EQ(memory->capacity(), 4096);
  DeviceMemory::Block first = *memory->Allocate(1);
  EXPECT_EQ(memory->in_use(), 256);
  {
    const DeviceMemory::Block second = *memory->Allocate(257);
    EXPECT_EQ(memory->in_use(), 768);
    EXPECT_EQ(second.data() - first.data(), 256);
  }
  EXPECT_EQ(memory->in_use(), 256);
  first = DeviceMemory::Block();
  EXPECT_EQ(memory->in_use(), 0);
}

TEST(DeviceMemory, MovedBlocksAreGivenBackOnce) {
  FakeCudaCalls calls(1, 1 << 20);
  const auto memory = *DeviceMemory::Take(0, 4096, &calls);
  {
    DeviceMemory::Block block = *memory->Allocate(256);
    std::byte* const data = block.data();
    const DeviceMemory::Block moved = std::move(block);
    EXPECT_EQ(moved.data(), data);
    EXPECT_EQ(memory->in_use(), 256);
  }
  EXPECT_EQ(memory->in_use(), 0);
}

TEST(DeviceMemory, NobodyIsToldToWaitForWhatIsKept) {
  FakeCudaCalls calls(1, 1 << 20);
  const auto memory = *DeviceMemory::Take(0, 4096, &calls);
  EXPECT_EQ(memory->Keep(4097).status().code(), absl::StatusCode::kResourceExhausted);
  {
    DeviceMemory::Block block = *memory->Keep(1000);
    const DeviceMemory::Block kept = std::move(block);
    EXPECT_EQ(memory->in_use(), 1024);
    EXPECT_EQ(memory->Allocate(3073).status().code(), absl::StatusCode::kInvalidArgument);
    const DeviceMemory::Block other = *memory->Allocate(1024);
    EXPECT_EQ(memory->Allocate(3072).status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(memory->Keep(3072).status().code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(memory->in_use(), 0);
  EXPECT_TRUE(memory->Allocate(4096).ok());
}

TEST(DeviceMemory, WhatDoesNotFitNowIsExhaustedAndWhatNeverFitsIsInvalid) {
  FakeCudaCalls calls(1, 1 << 20);
  const auto memory = *DeviceMemory::Take(0, 4096, &calls);
  const DeviceMemory::Block block = *memory->Allocate(2048);
  EXPECT_EQ(memory->Allocate(2049).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(memory->Allocate(4097).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(memory->Allocate(0)->data(), nullptr);
  EXPECT_TRUE(memory->Allocate(2048).ok());
}

}  // namespace
}  // namespace tessera
