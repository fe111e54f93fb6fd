// Many threads on one cache, each with sequences of its own and one that all of them share.
#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/cache/sequence_cache.h"
#include "server/clock/clock.h"
#include "tests/random/seed.h"

namespace tessera {
namespace {

TEST(CacheConcurrencyTest, NothingIsLostBetweenThreads) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  SequenceCache cache(
      {.layers = 2, .page_tokens = 4, .device_pages = 60, .host_pages = 20, .max_sequences = 40, .max_tokens = 1000},
      Clock::Real());
  const SequenceHandle shared = cache.Create("everyone", 1)->front();
  std::atomic<int64_t> appended{0};
  const uint64_t seed = RandomSeed();
  const auto work = [&](int thread) {
    std::mt19937_64 random(seed + thread);
    const std::string tenant = absl::StrCat("tenant ", thread);
    for (int round = 0; round < kRounds; ++round) {
      const auto created = cache.Create(tenant, 2);
      if (!created.ok()) continue;
      if (auto step = cache.Reserve(tenant, {{created->front(), 0, static_cast<int64_t>(random() % 20)},
                                             {created->back(), 1, static_cast<int64_t>(random() % 20)}});
          step.ok() && random() % 4 != 0) {
        step->Commit();
      }
      if (const auto fork = cache.Fork(tenant, created->front(), {}); fork.ok()) {
        if (auto step = cache.Reserve(tenant, {{*fork, 1, 5}}); step.ok()) step->Commit();
        EXPECT_TRUE(cache.Release(tenant, *fork).ok());
      }
      if (auto spill = cache.Spill(3); spill.has_value()) spill->Commit();
      if (auto step = cache.Reserve("everyone", {{shared, 0, 1}}); step.ok() && appended < 100) {
        step->Commit();
        ++appended;
      }
      for (const SequenceHandle& handle : *created) EXPECT_TRUE(cache.Release(tenant, handle).ok());
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(cache.CheckInvariants(), absl::OkStatus());
  EXPECT_EQ(cache.Get("everyone", shared)->lengths[0], appended);
  ASSERT_TRUE(cache.Release("everyone", shared).ok());
  const CacheCounts counts = cache.counts();
  EXPECT_EQ(counts.device.free, counts.device.total);
  EXPECT_EQ(counts.host.free, counts.host.total);
  EXPECT_EQ(counts.sequences, 0);
  EXPECT_GT(appended, 0);
}

}  // namespace
}  // namespace tessera
