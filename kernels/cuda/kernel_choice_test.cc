#include "kernels/cuda/kernel_choice.h"

#include "gtest/gtest.h"
#include "kernels/cuda/tensor_map.h"

namespace tessera::cuda {
namespace {

AttentionParams Params(DType dtype, int head_dim, Mask mask = Mask::Full()) {
  return {.dtype = dtype, .q_heads = 4, .kv_heads = 2, .head_dim = head_dim, .scale = 1.0f, .mask = mask};
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
        EXPECT_EQ(ChooseKernel(family, Params(dtype, head_dim)).head_dim, fitting) << Name(family) << head_dim;
      }
    }
  }
}

TEST(KernelChoiceTest, WideTilesWhereNothingIsMasked) {
  EXPECT_GT(ChooseKernel(KernelFamily::kSm90a, Params(DType::kBFloat16, 128)).tile_keys,
            ChooseKernel(KernelFamily::kSm90a, Params(DType::kBFloat16, 128, Mask::Causal())).tile_keys);
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

}  // namespace
}  // namespace tessera::cuda
