#include "kernels/cuda/paged/paged_choice.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace tessera::cuda::paged {
namespace {

const void* At(uintptr_t address) { return reinterpret_cast<const void*>(address); }

PagedParams Params() {
  return {.attention = {.dtype = DType::kFloat16, .q_heads = 8, .kv_heads = 2, .head_dim = 128},
          .cache_dtype = CacheDType::kFloat16,
          .page_tokens = 16,
          .page_stride = 16 * 2 * 128,
          .strides = Strides::Packed(2, 128)};
}

PagedSequence Sequence(int64_t q_len) {
  PagedSequence sequence;
  sequence.q_len = q_len;
  sequence.q = At(0x1000);
  sequence.q_strides = Strides::Packed(8, 128);
  sequence.layer.k_pages = const_cast<void*>(At(0x2000));
  sequence.layer.v_pages = const_cast<void*>(At(0x3010));
  return sequence;
}

TEST(PagedChoiceTest, RowsDecideBetweenNarrowAndWide) {
  EXPECT_EQ(PathOf(Params(), Sequence(1)), RowPath::kNarrow);
  EXPECT_EQ(PathOf(Params(), Sequence(4)), RowPath::kNarrow);
  EXPECT_EQ(PathOf(Params(), Sequence(5)), RowPath::kWide);
  EXPECT_EQ(PathOf(Params(), Sequence(kMaxSplitRows / 4)), RowPath::kWide);
  EXPECT_EQ(PathOf(Params(), Sequence(kMaxSplitRows / 4 + 1)), RowPath::kForward);
  PagedParams fp8 = Params();
  fp8.cache_dtype = CacheDType::kFloat8;
  EXPECT_EQ(PathOf(fp8, Sequence(kMaxSplitRows / 4 + 1)), RowPath::kWide);
  PagedParams large = Params();
  large.attention.head_dim = 136;
  large.page_stride *= 2;
  large.strides = Strides::Packed(2, 136);
  EXPECT_EQ(PathOf(large, Sequence(5)), RowPath::kNarrow);
}

TEST(PagedChoiceTest, WhatSixteenByteReadsDoNotFitGoesByRow) {
  PagedSequence sequence = Sequence(1);
  sequence.q = At(0x1008);
  EXPECT_EQ(PathOf(Params(), sequence), RowPath::kByRow);
  sequence = Sequence(1);
  sequence.q_strides.head += 4;
  EXPECT_EQ(PathOf(Params(), sequence), RowPath::kByRow);
  sequence = Sequence(1);
  sequence.layer.v_pages = const_cast<void*>(At(0x3018));
  EXPECT_EQ(PathOf(Params(), sequence), RowPath::kByRow);
  PagedParams params = Params();
  params.page_stride += 4;
  EXPECT_EQ(PathOf(params, Sequence(1)), RowPath::kByRow);
  params = Params();
  params.strides.token += 4;
  EXPECT_EQ(PathOf(params, Sequence(1)), RowPath::kByRow);
}

TEST(PagedChoiceTest, Fp8RowsAreWholeChunks) {
  PagedParams params = Params();
  params.cache_dtype = CacheDType::kFloat8;
  EXPECT_EQ(PathOf(params, Sequence(1)), RowPath::kNarrow);
  params.attention.head_dim = 120;  // 7.5 chunks of fp8
  EXPECT_EQ(PathOf(params, Sequence(1)), RowPath::kByRow);
  params.cache_dtype = CacheDType::kFloat16;
  EXPECT_EQ(PathOf(params, Sequence(1)), RowPath::kNarrow);
}

TEST(PagedChoiceTest, Fp32GoesByRow) {
  PagedParams params = Params();
  params.attention.dtype = DType::kFloat32;
  params.cache_dtype = CacheDType::kFloat32;
  EXPECT_EQ(PathOf(params, Sequence(1)), RowPath::kByRow);
}

TEST(PagedChoiceTest, KernelsFitTheirCalls) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const CacheDType cached : {CacheDTypeFor(dtype), CacheDType::kFloat8}) {
      for (int head_dim = kMinHeadDim; head_dim <= kMaxHeadDim; head_dim += kHeadDimStep) {
        PagedParams params = Params();
        params.attention.dtype = dtype;
        params.attention.head_dim = head_dim;
        params.cache_dtype = cached;
        for (const int64_t q_len : {1, 5}) {
          const RowPath path = PathOf(params, Sequence(q_len));
          const PagedKernelEntry& kernel = AttentionKernel(params, path);
          EXPECT_GE(kernel.head_dim, head_dim);
          EXPECT_EQ(kernel.tile_rows, path == RowPath::kWide ? 32 : 16);
          EXPECT_NE(kernel.launch, nullptr);
          EXPECT_NE(AppendKernelFor(params), nullptr);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::cuda::paged
