#include "kernels/cuda/kernel_choice.h"

#include "gtest/gtest.h"
#include "kernels/cuda/page_box.h"
#include "kernels/cuda/tensor_map.h"

namespace tessera::cuda {
namespace {

AttentionParams Params(DType dtype, int head_dim, Mask mask = Mask::Full()) {
  return {.dtype = dtype, .q_heads = 4, .kv_heads = 2, .head_dim = head_dim, .scale = 1.0f, .mask = mask};
}

const ForwardKernelEntry& Choice(KernelFamily family, const AttentionParams& params, int64_t kv_len) {
  SequenceView sequence = {};
  sequence.q_len = sequence.kv_len = kv_len;
  return ChooseKernel(family, params, sequence);
}

TEST(KernelChoiceTest, HopperAloneHasItsOwnFamily) {
  EXPECT_EQ(FamilyOf(9, 0), KernelFamily::kSm90a);
  for (const auto& [major, minor] : {std::pair(8, 0), {8, 6}, {8, 9}, {10, 0}, {12, 0}}) {
    EXPECT_EQ(FamilyOf(major, minor), KernelFamily::kSm80) << major << "." << minor;
  }
}

TEST(KernelChoiceTest, SmallestKernelThatHoldsTheHead) {
  for (KernelFamily family : {KernelFamily::kSm90a, KernelFamily::kSm80}) {
    for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      for (int head_dim = 8; head_dim <= 256; head_dim += 8) {
        int fitting = 0;
        for (int size : {256, 192, 128, 96, 64}) {
          if (size >= head_dim) fitting = size;
        }
        for (int64_t kv_len : {1, 1 << 20}) {
          EXPECT_EQ(Choice(family, Params(dtype, head_dim), kv_len).head_dim, fitting) << Name(family) << head_dim;
        }
      }
    }
  }
}

TEST(KernelChoiceTest, WideTilesForLongSequencesWithoutMask) {
  const AttentionParams full = Params(DType::kBFloat16, 128);
  const int wide = Choice(KernelFamily::kSm90a, full, 4096).tile_keys;
  EXPECT_GT(wide, Choice(KernelFamily::kSm90a, full, 4095).tile_keys);
  EXPECT_GT(wide, Choice(KernelFamily::kSm90a, Params(DType::kBFloat16, 128, Mask::Causal()), 4096).tile_keys);
}

TEST(KernelChoiceTest, ShortTilesForShortSequencesWithMask) {
  const AttentionParams causal = Params(DType::kFloat16, 64, Mask::Causal());
  const int tall = Choice(KernelFamily::kSm90a, causal, 2048).tile_rows;
  EXPECT_LT(Choice(KernelFamily::kSm90a, causal, 2047).tile_rows, tall);
  EXPECT_EQ(Choice(KernelFamily::kSm90a, Params(DType::kFloat16, 64), 2047).tile_rows, tall);
}

class Sm90aComputesTest : public ::testing::Test {
 protected:
  bool Computes() { return Sm90aComputes(params_, sequence_); }

  alignas(16) unsigned char memory_[64] = {};
  AttentionParams params_ = Params(DType::kFloat16, 64);
  SequenceView sequence_ = {.q_len = 5,
                            .kv_len = 5,
                            .q = memory_,
                            .k = memory_,
                            .v = memory_,
                            .o = memory_,
                            .q_strides = Strides::Packed(4, 64),
                            .k_strides = Strides::Packed(2, 64),
                            .v_strides = Strides::Packed(2, 64),
                            .o_strides = Strides::Packed(4, 64)};
};

TEST_F(Sm90aComputesTest, AlignedSixteenBitTensors) {
  EXPECT_TRUE(Computes());
  params_.dtype = DType::kFloat32;
  EXPECT_FALSE(Computes());
}

TEST_F(Sm90aComputesTest, NotWhatTheCopyEngineCannotAddress) {
  sequence_.v = memory_ + 2;
  EXPECT_FALSE(Computes());
  sequence_.v = memory_;
  sequence_.o_strides.token += 4;  // 8 bytes
  EXPECT_FALSE(Computes());
  sequence_.o_strides.token += 4;
  EXPECT_TRUE(Computes());
  sequence_.k_strides.head = int64_t{1} << 39;  // 2^40 bytes
  EXPECT_FALSE(Computes());
}

TEST_F(Sm90aComputesTest, StridesThatAreNeverTakenDoNotCount) {
  sequence_.q_len = 1;
  sequence_.q_strides.token = sequence_.o_strides.token = 4 * 64 + 1;
  EXPECT_TRUE(Computes());
  sequence_.kv_len = 0;
  sequence_.k = sequence_.v = memory_ + 2;
  EXPECT_TRUE(Computes());
}

TEST(BoxKeysTest, ArePowersOfTwoThatDivideThePageAndTheTile) {
  EXPECT_EQ(BoxKeys(1, 128), 1);
  EXPECT_EQ(BoxKeys(8, 128), 8);
  EXPECT_EQ(BoxKeys(64, 128), 64);
  EXPECT_EQ(BoxKeys(4096, 128), 128);
  EXPECT_EQ(BoxKeys(64, 176), 16);
  EXPECT_EQ(BoxKeys(8, 80), 8);
}

class Sm90aReadsPagesTest : public ::testing::Test {
 protected:
  bool Reads() { return Sm90aReadsPages(params_, sequence_); }

  alignas(16) unsigned char memory_[64] = {};
  PagedParams params_ = {.attention = Params(DType::kFloat16, 64),
                         .cache_dtype = CacheDType::kFloat16,
                         .page_tokens = 64,
                         .page_stride = 64 * 2 * 64,
                         .strides = Strides::Packed(2, 64)};
  PagedSequence sequence_ = {.q_len = 50,
                             .kv_len = 70,
                             .layer = {.k_pages = memory_, .v_pages = memory_},
                             .q = memory_,
                             .o = memory_,
                             .q_strides = Strides::Packed(4, 64),
                             .o_strides = Strides::Packed(4, 64)};
};

TEST_F(Sm90aReadsPagesTest, PagesOfEnoughTokens) {
  EXPECT_TRUE(Reads());
  params_.page_tokens = 32;
  EXPECT_TRUE(Reads());
  params_.page_tokens = 16;
  EXPECT_FALSE(Reads());
}

TEST_F(Sm90aReadsPagesTest, PagesOfTwiceAsManyWhereSlabsAreHalfAsWide) {
  params_.attention.head_dim = 96;
  params_.page_stride *= 2;
  params_.strides = Strides::Packed(2, 96);
  sequence_.q_strides = sequence_.o_strides = Strides::Packed(4, 96);
  EXPECT_TRUE(Reads());
  params_.page_tokens = 32;
  EXPECT_FALSE(Reads());
}

TEST_F(Sm90aReadsPagesTest, TilesThatAreWholeBoxes) {
  params_.attention.head_dim = 256;  // of 80 keys
  params_.page_stride *= 4;
  params_.strides = Strides::Packed(2, 256);
  sequence_.q_strides = sequence_.o_strides = Strides::Packed(4, 256);
  EXPECT_FALSE(Reads());
}

TEST_F(Sm90aReadsPagesTest, NotOtherTypes) {
  params_.cache_dtype = CacheDType::kFloat8;
  EXPECT_FALSE(Reads());
  params_.attention.dtype = DType::kFloat32;
  params_.cache_dtype = CacheDType::kFloat32;
  EXPECT_FALSE(Reads());
}

TEST_F(Sm90aReadsPagesTest, NotWhatTheCopyEngineCannotAddress) {
  params_.page_stride += 4;  // 8 bytes
  EXPECT_FALSE(Reads());
  params_.page_stride = int64_t{1} << 39;  // 2^40 bytes
  EXPECT_FALSE(Reads());
  params_.page_stride = int64_t{1} << 38;
  EXPECT_TRUE(Reads());
  sequence_.layer.v_pages = memory_ + 8;
  EXPECT_FALSE(Reads());
  sequence_.layer.v_pages = memory_;
  sequence_.q = memory_ + 8;
  EXPECT_FALSE(Reads());
}

TEST_F(Sm90aReadsPagesTest, NotWhereThereIsNoPage) {
  sequence_.kv_len = 0;
  EXPECT_FALSE(Reads());
}

}  // namespace
}  // namespace tessera::cuda
