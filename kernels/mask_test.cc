#include "kernels/mask.h"

#include <algorithm>
#include <limits>
#include <random>

#include "gtest/gtest.h"
#include "tests/random/seed.h"

namespace tessera {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

// The definition of attention.h, key by key.
bool Sees(const Mask& mask, int64_t q_len, int64_t kv_len, int64_t row, int64_t key) {
  const long double position = row + kv_len - q_len;  // 64 bits of fraction: exact
  if (mask.left != Mask::kUnbounded && key < position - mask.left) return false;
  if (mask.right != Mask::kUnbounded && key > position + mask.right) return false;
  return true;
}

TEST(MaskGeometryTest, AgreesWithTheDefinition) {
  std::mt19937_64 random(RandomSeed());
  const int64_t sides[] = {Mask::kUnbounded, 0, 1, 2, 5, 17, kHuge - 1, kHuge};
  for (int trial = 0; trial < 3000; ++trial) {
    const Mask mask{sides[random() % 8], sides[random() % 8]};
    const int64_t q_len = random() % 24;
    const int64_t kv_len = random() % 24;
    const MaskGeometry geometry(mask, q_len, kv_len);
    int64_t pairs = 0;
    for (int64_t row = 0; row < q_len; ++row) {
      const KeyRange keys = geometry.VisibleTo(row);
      for (int64_t key = 0; key < kv_len; ++key) {
        ASSERT_EQ(keys.begin <= key && key < keys.end, Sees(mask, q_len, kv_len, row, key))
            << "left " << mask.left << " right " << mask.right << " q " << q_len << " kv " << kv_len << " row " << row
            << " key " << key;
      }
      ASSERT_GE(keys.size(), 0);
      pairs += keys.size();
    }
    ASSERT_EQ(geometry.VisiblePairs(), pairs);
  }
}

TEST(MaskGeometryTest, BlockRangesAreUnionAndIntersection) {
  std::mt19937_64 random(RandomSeed());
  for (int trial = 0; trial < 2000; ++trial) {
    const Mask mask{static_cast<int64_t>(random() % 12) - 1, static_cast<int64_t>(random() % 12) - 1};
    const int64_t q_len = 1 + random() % 20;
    const int64_t kv_len = random() % 20;
    const int64_t first = random() % q_len;
    const int64_t last = first + random() % (q_len - first);
    const MaskGeometry geometry(mask, q_len, kv_len);
    const KeyRange any = geometry.VisibleToAny(first, last);
    const KeyRange all = geometry.VisibleToAll(first, last);
    for (int64_t key = 0; key < kv_len; ++key) {
      int64_t seen = 0;
      for (int64_t row = first; row <= last; ++row) seen += Sees(mask, q_len, kv_len, row, key);
      ASSERT_EQ(any.begin <= key && key < any.end, (seen > 0)) << key;
      ASSERT_EQ(all.begin <= key && key < all.end, seen == last - first + 1) << key;
    }
  }
}

TEST(MaskGeometryTest, LengthsNearTheLimitOfInt64) {
  const int64_t length = int64_t{1} << 61;
  EXPECT_EQ(MaskGeometry(Mask::Causal(), length, length).VisibleTo(length - 1), (KeyRange{0, length}));
  EXPECT_EQ(MaskGeometry(Mask::Causal(), length, 1).VisibleTo(0), (KeyRange{0, 0}));
  EXPECT_EQ(MaskGeometry(Mask::Window(kHuge, kHuge), length, 1).VisibleTo(0), (KeyRange{0, 1}));
  EXPECT_EQ(MaskGeometry(Mask::Window(0, 0), 1, length).VisibleTo(0), (KeyRange{length - 1, length}));
}

}  // namespace
}  // namespace tessera
