#include "kernels/cuda/key_range.h"

#include <cstdint>
#include <random>

#include "gtest/gtest.h"
#include "kernels/cuda/forward_plan.h"
#include "kernels/mask.h"

namespace tessera::cuda {
namespace {

struct Sample {
  Mask mask;
  int32_t q_len;
  int32_t kv_len;
};

Sample RandomSample(std::mt19937& random) {
  const int64_t sides[] = {-1, 0, 1, 5, 40, 300, int64_t{1} << 31, int64_t{1} << 62};
  return {Mask::Window(sides[random() % 8], sides[random() % 8]), static_cast<int32_t>(1 + random() % 120),
          static_cast<int32_t>(random() % 120)};
}

TEST(KeyRangeTest, AgreesWithMaskGeometry) {
  std::mt19937 random(20261129);
  for (int i = 0; i < 2000; ++i) {
    const Sample s = RandomSample(random);
    const MaskGeometry geometry(s.mask, s.q_len, s.kv_len);
    const int32_t left = ClampSide(s.mask.left), right = ClampSide(s.mask.right);
    for (int32_t token = 0; token < s.q_len; ++token) {
      const KeyRange range = VisibleKeys(token, s.q_len, s.kv_len, left, right);
      const tessera::KeyRange expected = geometry.VisibleTo(token);
      for (int32_t key = 0; key < s.kv_len; ++key) {
        ASSERT_EQ(range.begin <= key && key < range.end, expected.begin <= key && key < expected.end)
            << "token " << token << " key " << key << " of " << s.q_len << " x " << s.kv_len << ", window "
            << s.mask.left << ", " << s.mask.right;
      }
    }
  }
}

TEST(KeyRangeTest, BlocksHoldEveryVisibleKeyAndWholeOnesNoHiddenKey) {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    const Sample s = RandomSample(random);
    const MaskGeometry geometry(s.mask, s.q_len, s.kv_len);
    const int32_t width = static_cast<int32_t>(1 + random() % 20);
    const int32_t first = static_cast<int32_t>(random() % s.q_len);
    const int32_t last = first + static_cast<int32_t>(random() % (s.q_len - first));
    const KeyBlocks blocks =
        VisibleBlocks(first, last, s.q_len, s.kv_len, ClampSide(s.mask.left), ClampSide(s.mask.right), width);
    const tessera::KeyRange any = geometry.VisibleToAny(first, last);
    EXPECT_EQ(blocks.empty(), any.empty());
    if (any.empty()) continue;
    EXPECT_EQ(blocks.begin, any.begin / width);
    EXPECT_EQ(blocks.end, (any.end + width - 1) / width);
    for (int32_t block = blocks.begin; block < blocks.end; ++block) {
      bool hides = false;
      for (int32_t token = first; token <= last; ++token) {
        const tessera::KeyRange range = geometry.VisibleTo(token);
        hides = hides || range.begin > int64_t{block} * width || range.end < int64_t{block + 1} * width;
      }
      EXPECT_EQ(blocks.needs_mask(block), hides) << "block " << block << " of width " << width;
    }
  }
}

TEST(KeyRangeTest, LongestLengthsDoNotOverflow) {
  const KeyRange range = VisibleKeys(kMaxLength - 1, kMaxLength, kMaxLength, kUnboundedSide, kUnboundedSide);
  EXPECT_EQ(range.begin, 0);
  EXPECT_EQ(range.end, kMaxLength);
}

}  // namespace
}  // namespace tessera::cuda
