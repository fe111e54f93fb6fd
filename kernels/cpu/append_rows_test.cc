#include "kernels/cpu/append_rows.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/float8.h"

namespace tessera {
namespace {

constexpr int64_t kHeadDim = 8;
constexpr int64_t kHeads = 2;
constexpr int64_t kPageTokens = 2;
constexpr int64_t kPageElements = kPageTokens * kHeads * kHeadDim;
constexpr uint8_t kUntouched = 0xee;

// Two new tokens after three: the last row of a sequence's second page and the first of its third.
TEST(AppendRowsTest, Fp8RowsAreDividedByTheirHeadsScaleAndRounded) {
  const float kInfinity = std::numeric_limits<float>::infinity();
  const float rows[2][kHeads][kHeadDim] = {
      {{0, -0.0f, 0.1f, 1, -3, 33.3f, 1e-4f, 7}, {1, 2, 3, 4, 5, 6, 7, 8}},
      {{1e9f, -1e9f, kInfinity, -kInfinity, std::nanf(""), 134.4f, 134, 2}, {-0.5f, 0.25f, 0.3f, 9, 10, 11, 12, 13}},
  };
  const float k_scales[kHeads] = {0.3f, 1.7f};
  const float v_scales[kHeads] = {5.0f, 0.01f};
  std::vector<uint8_t> k_pages(4 * kPageElements, kUntouched), v_pages = k_pages;
  const int32_t pages[] = {1, 3, 0};
  const PagedParams params = {.attention = {.q_heads = 2, .kv_heads = kHeads, .head_dim = kHeadDim},
                              .cache_dtype = CacheDType::kFloat8,
                              .page_tokens = kPageTokens,
                              .page_stride = kPageElements,
                              .strides = Strides::Packed(kHeads, kHeadDim)};
  AppendRows(params, {.kv_len = 5,
                      .append_len = 2,
                      .layer = {k_pages.data(), v_pages.data(), k_scales, v_scales},
                      .pages = pages,
                      .k = rows,
                      .v = rows,
                      .k_strides = Strides::Packed(kHeads, kHeadDim),
                      .v_strides = Strides::Packed(kHeads, kHeadDim)});

  std::vector<uint8_t> expected_k(4 * kPageElements, kUntouched), expected_v = expected_k;
  const int64_t offsets[2] = {3 * kPageElements + kHeads * kHeadDim, 0};
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t head = 0; head < kHeads; ++head) {
      for (int64_t c = 0; c < kHeadDim; ++c) {
        const int64_t at = offsets[row] + head * kHeadDim + c;
        expected_k[at] = ToFloat8(rows[row][head][c] / k_scales[head]).bits;
        expected_v[at] = ToFloat8(rows[row][head][c] / v_scales[head]).bits;
      }
    }
  }
  EXPECT_EQ(k_pages, expected_k);
  EXPECT_EQ(v_pages, expected_v);
  EXPECT_EQ(k_pages[0], 0x7e) << "too large becomes the largest";
  EXPECT_EQ(k_pages[3], 0xfe);
}

TEST(AppendRowsTest, RowsOfTheCallsTypeAreStoredAsTheyAre) {
  const uint16_t rows[2][kHeadDim] = {{0x7e01, 0xffff, 0x0001, 0x8000, 0x7c00, 1, 2, 3}, {4, 5, 6, 7, 8, 9, 10, 11}};
  std::vector<uint16_t> k_pages(2 * kHeadDim, 0x1234), v_pages = k_pages;
  const int32_t pages[] = {1, 0};
  const PagedParams params = {.attention = {.dtype = DType::kFloat16, .head_dim = kHeadDim},
                              .cache_dtype = CacheDType::kFloat16,
                              .page_tokens = 1,
                              .page_stride = kHeadDim,
                              .strides = Strides::Packed(1, kHeadDim)};
  AppendRows(params, {.kv_len = 2,
                      .append_len = 1,
                      .layer = {k_pages.data(), v_pages.data()},
                      .pages = pages,
                      .k = rows[0],
                      .v = rows[1],
                      .k_strides = Strides::Packed(1, kHeadDim),
                      .v_strides = Strides::Packed(1, kHeadDim)});
  for (int c = 0; c < kHeadDim; ++c) {
    EXPECT_EQ(k_pages[c], rows[0][c]) << "NaN payloads and subnormals too";
    EXPECT_EQ(v_pages[c], rows[1][c]);
    EXPECT_EQ(k_pages[kHeadDim + c], 0x1234) << "token 0 is not new";
  }
}

}  // namespace
}  // namespace tessera
