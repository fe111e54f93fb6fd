#include "server/memory/staging_pool.h"

#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(StagingPool, BuffersAreAlignedAndAccounted) {
  StagingPool pool(*StagingPool::MapAnonymous(1 << 20));
  StagingBuffer a = *pool.Allocate(1);
  StagingBuffer b = *pool.Allocate(300);
  EXPECT_EQ(a.size(), 1u);
  EXPECT_EQ(b.size(), 300u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data()) % StagingPool::kAlignment, 0u);
  EXPECT_EQ(pool.in_use(), 256u + 512u);
  a.Release();
  EXPECT_EQ(a.data(), nullptr);
  EXPECT_EQ(pool.in_use(), 512u);
}

TEST(StagingPool, EmptyBufferTakesNothing) {
  StagingPool pool(*StagingPool::MapAnonymous(4096));
  StagingBuffer empty = *pool.Allocate(0);
  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_EQ(empty.size(), 0u);
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(StagingPool, RefusesWhatDoesNotFitNowAndWhatNeverWill) {
  StagingPool pool(*StagingPool::MapAnonymous(4096));
  StagingBuffer held = *pool.Allocate(3000);
  EXPECT_EQ(pool.Allocate(2000).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.Allocate(4097).status().code(), absl::StatusCode::kInvalidArgument);
  held.Release();
  EXPECT_TRUE(pool.Allocate(4096).ok());
}

TEST(StagingPool, RegionThatCannotBeMappedIsAnError) {
  EXPECT_EQ(StagingPool::MapAnonymous(size_t{1} << 60).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(StagingPool::MapAnonymous(0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(StagingPool, GateRefusesBeforeAnythingIsTaken) {
  StagingPool pool(*StagingPool::MapAnonymous(4096));
  pool.set_gate([](size_t bytes) { return bytes > 100 ? absl::ResourceExhaustedError("gate") : absl::OkStatus(); });
  EXPECT_TRUE(pool.Allocate(100).ok());
  EXPECT_EQ(pool.Allocate(101).status().message(), "gate");
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(StagingPool, MovedBuffersAreFreedOnce) {
  StagingPool pool(*StagingPool::MapAnonymous(4096));
  StagingBuffer a = *pool.Allocate(256);
  StagingBuffer b = *pool.Allocate(512);
  a = std::move(b);
  EXPECT_EQ(pool.in_use(), 512u);
  StagingBuffer c = std::move(a);
  EXPECT_EQ(c.size(), 512u);
  c.Release();
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(StagingPoolDeathTest, OutlivesItsBuffers) {
  EXPECT_DEATH(
      {
        StagingBuffer orphan;
        StagingPool pool(*StagingPool::MapAnonymous(4096));
        orphan = *pool.Allocate(1);
      },
      "outlives");
}

// Each buffer is filled with its owner's byte and checked before it is freed, by another thread half of the time.
TEST(StagingPool, BuffersOfManyThreadsNeverOverlap) {
  StagingPool pool(*StagingPool::MapAnonymous(1 << 18));
  absl::Mutex mutex;
  std::vector<std::pair<unsigned char, StagingBuffer>> exchange;
  auto check = [](unsigned char mark, const StagingBuffer& buffer) {
    for (size_t i = 0; i < buffer.size(); ++i) {
      if (static_cast<unsigned char>(buffer.data()[i]) != mark) return false;
    }
    return true;
  };
  auto work = [&](unsigned char mark) {
    std::mt19937 random(mark);
    std::vector<std::pair<unsigned char, StagingBuffer>> held;
    for (int i = 0; i < 3000; ++i) {
      absl::StatusOr<StagingBuffer> buffer = pool.Allocate(1 + random() % 8000);
      if (buffer.ok()) {
        std::memset(buffer->data(), mark, buffer->size());
        held.emplace_back(mark, *std::move(buffer));
      }
      if (held.size() > 8 || (!buffer.ok() && !held.empty())) {
        std::swap(held[random() % held.size()], held.back());
        if (random() % 2 == 0) {
          absl::MutexLock lock(&mutex);
          exchange.push_back(std::move(held.back()));
          std::swap(exchange[random() % exchange.size()], exchange.back());
          held.back() = std::move(exchange.back());
          exchange.pop_back();
        }
        ASSERT_TRUE(check(held.back().first, held.back().second));
        held.pop_back();
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned char mark = 1; mark <= 4; ++mark) threads.emplace_back(work, mark);
  for (std::thread& thread : threads) thread.join();
  exchange.clear();
  EXPECT_EQ(pool.in_use(), 0u);
  EXPECT_TRUE(pool.Allocate(pool.capacity()).ok()) << "all free pieces have been merged";
}

}  // namespace
}  // namespace tessera
