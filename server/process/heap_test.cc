#include "server/process/heap.h"

#include <malloc.h>
#include <sys/resource.h>

#include <array>
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

int CountHeaps() {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* const file = open_memstream(&text, &size);
  EXPECT_EQ(malloc_info(0, file), 0);
  std::fclose(file);
  int heaps = 0;
  for (const char* at = text; (at = std::strstr(at, "<heap nr=")) != nullptr; ++at) ++heaps;
  std::free(text);
  return heaps;
}

int64_t PageFaults() {
  rusage usage;
  EXPECT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_minflt;
}

TEST(Heap, ThreadsShareAFewHeaps) {
  SetUpHeap();
  constexpr int kThreads = 4 * kHeaps;
  std::barrier all_hold(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&all_hold] {
      void* volatile held = std::malloc(1000);
      all_hold.arrive_and_wait();
      std::free(held);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(CountHeaps(), kHeaps);
}

// As messages come and go, in the pieces that gRPC receives them in.
TEST(Heap, MemoryOfOneMessageServesTheNext) {
  SetUpHeap();
  constexpr size_t kPiece = 64 << 10;
  const int64_t pages = 64 * kPiece / 4096;
  std::thread([pages] {
    const auto receive = [] {
      std::array<char*, 64> message;
      for (char*& piece : message) {
        piece = static_cast<char*>(std::malloc(kPiece));
        std::memset(piece, 1, kPiece);
      }
      for (char* piece : message) std::free(piece);
    };
    receive();
    const int64_t before = PageFaults();
    for (int i = 0; i < 20; ++i) receive();
    EXPECT_LT(PageFaults() - before, pages) << "20 messages of " << pages << " pages";
  }).join();
}

}  // namespace
}  // namespace tessera
