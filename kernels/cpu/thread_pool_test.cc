#include "kernels/cpu/thread_pool.h"

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(ThreadPoolTest, EveryItemRunsOnceAndInOrder) {
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t items : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(items);
      pool.Run(items, [&](WorkCursor& cursor) {
        int64_t last = -1;
        for (int64_t i = cursor.Next(); i >= 0; i = cursor.Next()) {
          EXPECT_GT(i, last);
          last = i;
          ++runs[i];
        }
      });
      for (int64_t i = 0; i < items; ++i) EXPECT_EQ(runs[i], 1) << i << " of " << items;
    }
  }
}

TEST(ThreadPoolTest, AllThreadsTakePart) {
  constexpr int kThreads = 3;
  ThreadPool pool(kThreads);
  // Each item waits for the others: the job can only end when as many threads work on it as there are items.
  absl::Barrier* barrier = new absl::Barrier(kThreads);
  absl::Mutex mutex;
  std::set<std::thread::id> seen;
  pool.Run(kThreads, [&](WorkCursor& cursor) {
    while (cursor.Next() >= 0) {
      {
        absl::MutexLock lock(&mutex);
        seen.insert(std::this_thread::get_id());
      }
      if (barrier->Block()) delete barrier;
    }
  });
  EXPECT_EQ(seen.size(), kThreads);
  EXPECT_EQ(seen.count(std::this_thread::get_id()), 1u);
}

TEST(ThreadPoolTest, RunReturnsOnlyWhenNoThreadIsInside) {
  ThreadPool pool(4);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> inside{0};
    pool.Run(4, [&](WorkCursor& cursor) {
      ++inside;
      while (cursor.Next() >= 0) std::this_thread::yield();
      --inside;
    });
    ASSERT_EQ(inside, 0);
  }
}

TEST(ThreadPoolTest, ConcurrentRunsDoNotMix) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        const int64_t items = 1 + round % 17;
        std::atomic<int64_t> sum{0};
        pool.Run(items, [&](WorkCursor& cursor) {
          for (int64_t i = cursor.Next(); i >= 0; i = cursor.Next()) sum += i + 1;
        });
        if (sum != items * (items + 1) / 2) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPoolTest, ThreadsMayLeaveEarly) {
  ThreadPool pool(3);
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int64_t> done{0};
  pool.Run(50, [&](WorkCursor& cursor) {
    if (std::this_thread::get_id() != caller) return;
    while (cursor.Next() >= 0) ++done;
  });
  EXPECT_EQ(done, 50);
}

TEST(ThreadPoolTest, ThisProcessHasACore) { EXPECT_GE(AvailableCores(), 1); }

}  // namespace
}  // namespace tessera
