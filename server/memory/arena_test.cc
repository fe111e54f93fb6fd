#include "server/memory/arena.h"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/random/seed.h"

namespace tessera {
namespace {

TEST(Arena, RoundsUpAndAligns) {
  Arena arena(1000, 256);
  EXPECT_EQ(arena.capacity(), 768u);
  EXPECT_EQ(arena.Allocate(1), 0u);
  EXPECT_EQ(arena.in_use(), 256u);
  EXPECT_EQ(arena.Allocate(257), 256u);
  EXPECT_EQ(arena.in_use(), 768u);
  EXPECT_EQ(arena.largest_free(), 0u);
  EXPECT_EQ(arena.Allocate(1), std::nullopt);
}

TEST(Arena, RefusesSizesThatWouldOverflow) {
  Arena arena(1024, 256);
  EXPECT_EQ(arena.Allocate(SIZE_MAX), std::nullopt);
  EXPECT_EQ(arena.Allocate(1025), std::nullopt);
  EXPECT_EQ(arena.Allocate(1024), 0u);
}

TEST(Arena, TakesTheTightestFit) {
  Arena arena(10 * 64, 64);
  const size_t a = *arena.Allocate(3 * 64);
  arena.Allocate(64);
  const size_t b = *arena.Allocate(2 * 64);
  arena.Allocate(64);  // 3 units left at the end
  arena.Free(a);
  arena.Free(b);
  EXPECT_EQ(arena.Allocate(2 * 64), b);
  EXPECT_EQ(arena.Allocate(3 * 64), a);
}

TEST(Arena, MergesWithBothNeighbours) {
  Arena arena(3 * 64, 64);
  const size_t a = *arena.Allocate(64);
  const size_t b = *arena.Allocate(64);
  const size_t c = *arena.Allocate(64);
  arena.Free(a);
  arena.Free(c);
  EXPECT_EQ(arena.largest_free(), 64u);
  arena.Free(b);
  EXPECT_EQ(arena.largest_free(), 3u * 64);
}

TEST(ArenaDeathTest, DoubleFreeIsCaught) {
  Arena arena(1024, 256);
  const size_t offset = *arena.Allocate(10);
  arena.Free(offset);
  EXPECT_DEATH(arena.Free(offset), "not allocated");
}

// One byte a unit of alignment; allocation is best fit with the lowest address among equals, by exhaustive search.
class NaiveArena {
 public:
  explicit NaiveArena(size_t units) : used_(units, false) {}

  // Sizes and offsets in units; -1 where nothing fits.
  int64_t Allocate(size_t size) {
    int64_t best = -1;
    size_t best_size = used_.size() + 1;
    for (const auto& [start, length] : FreeRuns()) {
      if (length >= size && length < best_size) {
        best = static_cast<int64_t>(start);
        best_size = length;
      }
    }
    if (best >= 0) std::fill_n(used_.begin() + best, size, true);
    return best;
  }
  void Free(size_t start, size_t size) { std::fill_n(used_.begin() + start, size, false); }
  size_t InUse() const { return std::count(used_.begin(), used_.end(), true); }
  size_t LargestFree() const {
    size_t largest = 0;
    for (const auto& run : FreeRuns()) largest = std::max(largest, run.second);
    return largest;
  }

 private:
  std::map<size_t, size_t> FreeRuns() const {
    std::map<size_t, size_t> runs;
    for (size_t i = 0; i < used_.size(); ++i) {
      if (used_[i]) continue;
      const size_t start = i;
      while (i < used_.size() && !used_[i]) ++i;
      runs[start] = i - start;
    }
    return runs;
  }

  std::vector<bool> used_;
};

TEST(Arena, AgreesWithANaiveModel) {
  constexpr size_t kAlignment = 64;
  constexpr size_t kUnits = 97;
  const uint64_t seed = tessera::RandomSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  Arena arena(kUnits * kAlignment + 17, kAlignment);
  NaiveArena model(kUnits);
  std::vector<std::pair<size_t, size_t>> held;  // offset, size, in units
  int refused = 0;
  for (int step = 0; step < 20000; ++step) {
    if (held.empty() || random() % 100 < 55) {
      const size_t bytes = 1 + random() % (random() % 4 == 0 ? 40 * kAlignment : 6 * kAlignment);
      const size_t units = (bytes + kAlignment - 1) / kAlignment;
      const std::optional<size_t> offset = arena.Allocate(bytes);
      const int64_t expected = model.Allocate(units);
      ASSERT_EQ(offset.has_value(), expected >= 0) << "step " << step;
      if (offset.has_value()) {
        ASSERT_EQ(*offset, expected * kAlignment) << "step " << step;
        held.emplace_back(expected, units);
      } else {
        ++refused;
      }
    } else {
      std::swap(held[random() % held.size()], held.back());
      arena.Free(held.back().first * kAlignment);
      model.Free(held.back().first, held.back().second);
      held.pop_back();
    }
    ASSERT_EQ(arena.in_use(), model.InUse() * kAlignment) << "step " << step;
    ASSERT_EQ(arena.largest_free(), model.LargestFree() * kAlignment) << "step " << step;
  }
  EXPECT_GT(refused, 100);
  for (const auto& [offset, size] : held) arena.Free(offset * kAlignment);
  EXPECT_EQ(arena.in_use(), 0u);
  EXPECT_EQ(arena.largest_free(), kUnits * kAlignment);
}

}  // namespace
}  // namespace tessera
