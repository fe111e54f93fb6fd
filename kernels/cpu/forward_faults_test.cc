// Faults that other attention kernels have had, one test each. F01 to F15 are numbered as in docs/numerics.md.
#include <sys/mman.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/highway.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/half.h"
#include "kernels/testing/accuracy.h"
#include "kernels/testing/random_batch.h"

namespace tessera {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class Faults : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  void Forward(RandomBatch& batch) {
    batch.PoisonOutputs();
    ASSERT_TRUE(cpu_->Forward(batch.params(), batch.Views(), nullptr, nullptr).ok());
  }

  // Runs the batch and compares with the reference; NaN must stand exactly where the reference has it.
  void ExpectReference(RandomBatch& batch, double tolerance = 4e-6) {
    ASSERT_NO_FATAL_FAILURE(Forward(batch));
    for (size_t i = 0; i < batch.size(); ++i) {
      const Deviation deviation =
          DeviationFrom(AttendInDouble(batch.params(), batch.View(i)), batch.params(), batch[i]);
      EXPECT_LE(deviation.o, tolerance) << "sequence " << i;
      EXPECT_LE(deviation.lse, tolerance) << "sequence " << i;
    }
  }

  std::unique_ptr<AttentionBackend> cpu_ = MakeCpuBackend(2);
};

AttentionParams OneHead(Mask mask, int32_t head_dim = 32) {
  return {.head_dim = head_dim, .scale = 1 / std::sqrt(static_cast<float>(head_dim)), .mask = mask};
}

std::vector<SequenceLengths> Lengths(std::initializer_list<SequenceLengths> lengths) { return lengths; }

void ExpectSeesNothing(const TestSequence& sequence, int64_t row, int64_t head, int64_t head_dim) {
  for (int64_t c = 0; c < head_dim; ++c) EXPECT_EQ(sequence.o.Get(row, head, c), 0.0f) << "row " << row;
  EXPECT_EQ(sequence.lse.Get(row, head, 0), -kInf) << "row " << row;
}

TEST_P(Faults, F01_CausalMoreQueriesThanKeys) {
  for (const SequenceLengths lengths : Lengths({{70, 5}, {300, 100}, {200, 1}, {65, 64}})) {
    RandomBatch batch(OneHead(Mask::Causal()), {&lengths, 1}, 1);
    ExpectReference(batch);
    for (int64_t row = 0; row < lengths.q_len - lengths.kv_len; ++row) ExpectSeesNothing(batch[0], row, 0, 32);
    EXPECT_TRUE(std::isfinite(batch[0].lse.Get(lengths.q_len - lengths.kv_len, 0, 0)));
  }
}

TEST_P(Faults, F02_LogitsFarBelowZeroStillWeighTheSame) {
  // Every logit is exactly -65536 (or -1e5 and less): the output is the mean of the values.
  for (float q : {-32.0f, -64.0f}) {
    RandomBatch batch({.head_dim = 64, .scale = 1.0f}, Lengths({{3, 100}}), 2);
    for (int64_t row = 0; row < 3; ++row) batch[0].q.SetRow(row, 0, q);
    for (int64_t key = 0; key < 100; ++key) batch[0].k.SetRow(key, 0, 32.0f);
    ExpectReference(batch);
    EXPECT_NEAR(batch[0].lse.Get(0, 0, 0), 64 * 32.0 * q + std::log(100.0), 0.01);
    EXPECT_NE(batch[0].o.Get(0, 0, 0), 0.0f);
  }
}

TEST_P(Faults, F02_FirstTileFullyMaskedForSomeRows) {
  // The block's first tile is visible to its first row only; later rows must not start from a maximum of 0.
  RandomBatch batch(OneHead(Mask::Window(10, 0)), Lengths({{190, 190}}), 3);
  for (int64_t key = 0; key < 190; ++key) batch[0].k.SetRow(key, 0, -400.0f);
  for (int64_t row = 0; row < 190; ++row) batch[0].q.SetRow(row, 0, 20.0f);
  ExpectReference(batch);
}

TEST_P(Faults, F02_ExtremeLogitsOfBothSigns) {
  RandomBatch batch({.head_dim = 64, .scale = 1.0f}, Lengths({{2, 130}}), 4);
  batch[0].q.SetRow(0, 0, 32.0f);
  batch[0].q.SetRow(1, 0, -32.0f);
  for (int64_t key = 0; key < 130; ++key) batch[0].k.SetRow(key, 0, key == 77 ? 50.0f : key == 3 ? -50.0f : 0.0f);
  ExpectReference(batch);  // logits of +-102400: row 0 is key 77 alone, row 1 is key 3 alone
  for (int64_t c = 0; c < 64; ++c) {
    EXPECT_EQ(batch[0].o.Get(0, 0, c), batch[0].v.Get(77, 0, c));
    EXPECT_EQ(batch[0].o.Get(1, 0, c), batch[0].v.Get(3, 0, c));
  }
}

TEST_P(Faults, F03_NoKeysGivesMinusInfinity) {
  for (Mask mask : {Mask::Full(), Mask::Causal(), Mask::Window(3, 3)}) {
    RandomBatch batch(OneHead(mask), Lengths({{5, 0}}), 5);
    Forward(batch);
    for (int64_t row = 0; row < 5; ++row) ExpectSeesNothing(batch[0], row, 0, 32);
  }
}

TEST_P(Faults, F04_LseIsTheNaturalLogarithm) {
  RandomBatch batch({.head_dim = 8, .scale = 1.0f}, Lengths({{1, 1000}}), 6);
  batch[0].q.SetRow(0, 0, 0.0f);
  Forward(batch);
  EXPECT_NEAR(batch[0].lse.Get(0, 0, 0), std::log(1000.0), 1e-6);
}

TEST_P(Faults, F06_HugeWindowsDropNoKeys) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  RandomBatch full(OneHead(Mask::Full()), Lengths({{70, 150}}), 7);
  Forward(full);
  for (Mask mask :
       {Mask::Window(huge, huge), Mask::Window(-1, huge), Mask::Window(huge - 1, 200), Mask::Window(149, 69)}) {
    RandomBatch window(OneHead(mask), Lengths({{70, 150}}), 7);
    Forward(window);
    EXPECT_TRUE(window[0].o.Bytes() == full[0].o.Bytes()) << mask.left << "," << mask.right;
    EXPECT_TRUE(window[0].lse.Bytes() == full[0].lse.Bytes()) << mask.left << "," << mask.right;
  }
}

TEST_P(Faults, F06_WindowOfAllEarlierKeysIsCausal) {
  RandomBatch causal(OneHead(Mask::Causal()), Lengths({{130, 130}}), 8);
  RandomBatch window(OneHead(Mask::Window(129, 0)), Lengths({{130, 130}}), 8);
  Forward(causal);
  Forward(window);
  EXPECT_TRUE(window[0].o.Bytes() == causal[0].o.Bytes());
}

TEST_P(Faults, F06_WindowBoundsAreInclusive) {
  RandomBatch batch({.head_dim = 8, .scale = 1.0f, .mask = Mask::Window(2, 1)}, Lengths({{9, 9}}), 9);
  for (int64_t row = 0; row < 9; ++row) batch[0].q.SetRow(row, 0, 0.0f);  // equal weights
  Forward(batch);
  EXPECT_NEAR(batch[0].lse.Get(4, 0, 0), std::log(4.0), 1e-6);  // keys 2, 3, 4, 5
  EXPECT_NEAR(batch[0].lse.Get(0, 0, 0), std::log(2.0), 1e-6);  // keys 0, 1
  EXPECT_NEAR(batch[0].lse.Get(8, 0, 0), std::log(3.0), 1e-6);  // keys 6, 7, 8
}

TEST_P(Faults, F07_EmptySequencesInABatch) {
  RandomBatch batch(OneHead(Mask::Causal()), Lengths({{0, 0}, {4, 4}, {0, 9}, {3, 0}, {0, 0}, {70, 70}, {0, 1}}), 10);
  ExpectReference(batch);
  const SequenceView none{};
  EXPECT_TRUE(cpu_->Forward(batch.params(), {&none, 1}, nullptr, nullptr).ok());
  EXPECT_TRUE(cpu_->Forward(batch.params(), {}, nullptr, nullptr).ok());
}

TEST_P(Faults, F08_NaNBeyondWhatARowSeesDoesNotReachIt) {
  // Poison in V, in K, or in both, at one key, for masks with boundaries inside a tile; rows that do not see the key
  // must be what they are without it, bit for bit.
  const struct {
    float k, v;  // 1: left as it is
  } poisons[] = {{kNaN, 1}, {1, kNaN}, {kNaN, kNaN}, {kNaN, kInf}, {kNaN, -kInf}};
  for (Mask mask : {Mask::Causal(), Mask::Window(20, 5), Mask::Window(0, 0)}) {
    for (const auto& poison : poisons) {
      for (int64_t key : {40, 99}) {
        RandomBatch clean(OneHead(mask), Lengths({{100, 100}}), 11);
        RandomBatch dirty(OneHead(mask), Lengths({{100, 100}}), 11);
        if (poison.k != 1) dirty[0].k.SetRow(key, 0, poison.k);
        if (poison.v != 1) dirty[0].v.SetRow(key, 0, poison.v);
        Forward(clean);
        Forward(dirty);
        for (int64_t row = 0; row < 100; ++row) {
          const bool sees =
              key <= row + (mask.right < 0 ? 100 : mask.right) && (mask.left < 0 || key >= row - mask.left);
          for (int64_t c = 0; c < 32; ++c) {
            const float value = dirty[0].o.Get(row, 0, c);
            if (sees) {
              ASSERT_TRUE(std::isnan(value)) << "row " << row << " key " << key;
            } else {
              ASSERT_EQ(value, clean[0].o.Get(row, 0, c)) << "row " << row << " key " << key;
            }
          }
          ASSERT_EQ(std::isnan(dirty[0].lse.Get(row, 0, 0)), sees && poison.k != 1);
        }
      }
    }
  }
}

TEST_P(Faults, F08_InfinityInVReachesOnlyRowsThatSeeIt) {
  RandomBatch batch(OneHead(Mask::Causal()), Lengths({{100, 100}}), 12);
  batch[0].v.Set(50, 0, 3, kInf);
  Forward(batch);
  for (int64_t row = 0; row < 100; ++row) {
    for (int64_t c = 0; c < 32; ++c) {
      const float value = batch[0].o.Get(row, 0, c);
      ASSERT_TRUE(row >= 50 && c == 3 ? value == kInf : std::isfinite(value)) << row << " " << c;
    }
  }
}

TEST_P(Faults, F08_NaNInOneQueryStaysInItsRow) {
  RandomBatch clean({.q_heads = 4, .kv_heads = 2, .head_dim = 16, .scale = 0.25f}, Lengths({{60, 70}}), 13);
  RandomBatch dirty(clean.params(), Lengths({{60, 70}}), 13);
  dirty[0].q.Set(31, 2, 5, kNaN);
  dirty[0].q.Set(7, 1, 0, kInf);
  Forward(clean);
  Forward(dirty);
  for (int64_t row = 0; row < 60; ++row) {
    for (int64_t head = 0; head < 4; ++head) {
      const bool hit = (row == 31 && head == 2) || (row == 7 && head == 1);
      for (int64_t c = 0; c < 16; ++c) {
        const float value = dirty[0].o.Get(row, head, c);
        ASSERT_TRUE(hit ? std::isnan(value) : value == clean[0].o.Get(row, head, c)) << row << " " << head;
      }
    }
  }
}

TEST_P(Faults, F08_NaNIsSeenWhateverItsPayload) {
  for (uint32_t bits : {0x7fc00001u, 0x7fc000ffu, 0xffc001ffu}) {
    RandomBatch batch(OneHead(Mask::Full()), Lengths({{20, 30}}), 15);
    batch[0].k.SetRow(17, 0, std::bit_cast<float>(bits));
    Forward(batch);
    for (int64_t row = 0; row < 20; ++row) {
      ASSERT_TRUE(std::isnan(batch[0].lse.Get(row, 0, 0))) << row;
      for (int64_t c = 0; c < 32; ++c) ASSERT_TRUE(std::isnan(batch[0].o.Get(row, 0, c))) << row << " " << c;
    }
  }
}

TEST_P(Faults, F08_SoftcapKeepsNaNAndBoundsInfinity) {
  AttentionParams params = OneHead(Mask::Causal());
  params.softcap = 5.0f;
  RandomBatch batch(params, Lengths({{40, 50}}), 19);
  for (int64_t row = 0; row < 40; ++row) batch[0].q.SetRow(row, 0, 1.0f);
  batch[0].k.SetRow(3, 0, kInf);
  batch[0].k.SetRow(4, 0, -kInf);
  batch[0].k.Set(30, 0, 7, kNaN);
  ExpectReference(batch);
  EXPECT_TRUE(std::isfinite(batch[0].o.Get(19, 0, 0)));
  EXPECT_TRUE(std::isnan(batch[0].o.Get(20, 0, 0))) << "the first row that sees key 30";
}

TEST_P(Faults, ScaleAndSoftcapAtFloatsEnds) {
  for (float scale : {3.4e38f, -3.4e38f, 1e-45f}) {
    for (float softcap : {0.0f, 1e-45f, 3.4e38f}) {
      AttentionParams params = OneHead(Mask::Causal());
      params.scale = scale;
      params.softcap = softcap;
      RandomBatch batch(params, Lengths({{40, 50}}), 16);
      Forward(batch);
      for (int64_t row = 0; row < 40; ++row) {
        for (int64_t c = 0; c < 32; ++c) {
          ASSERT_TRUE(std::isfinite(batch[0].o.Get(row, 0, c))) << scale << " " << softcap << " row " << row;
        }
      }
    }
  }
}

TEST_P(Faults, F08_NaNInOneSequenceStaysThere) {
  RandomBatch batch(OneHead(Mask::Full()), Lengths({{20, 30}, {20, 30}, {20, 30}}), 14);
  batch[1].k.SetRow(0, 0, kNaN);
  Forward(batch);
  for (int64_t row = 0; row < 20; ++row) {
    EXPECT_TRUE(std::isfinite(batch[0].o.Get(row, 0, 0)));
    EXPECT_TRUE(std::isnan(batch[1].o.Get(row, 0, 0)));
    EXPECT_TRUE(std::isfinite(batch[2].o.Get(row, 0, 0)));
  }
}

TEST_P(Faults, F08_F09_EveryRowIsWrittenAndNoOther) {
  for (TensorLayout layout : {TensorLayout::kPacked, TensorLayout::kPadded, TensorLayout::kHeadsOuter}) {
    for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      RandomBatch batch({.dtype = dtype, .q_heads = 6, .kv_heads = 2, .head_dim = 24, .mask = Mask::Causal()},
                        Lengths({{1, 9}, {63, 64}, {64, 64}, {65, 64}, {192, 10}, {193, 193}, {5, 0}}), 15, layout);
      Forward(batch);
      for (size_t i = 0; i < batch.size(); ++i) {
        EXPECT_TRUE(batch[i].o.PaddingIsPoison()) << i;
        EXPECT_TRUE(batch[i].lse.PaddingIsPoison()) << i;
        EXPECT_FALSE(batch[i].o.AnyElementIsPoison()) << i;
        EXPECT_FALSE(batch[i].lse.AnyElementIsPoison()) << i;
      }
    }
  }
}

// A row that sees exactly one key is that key's value: cheap to check at any size.
void ExpectEqualsValues(AttentionBackend& cpu, int64_t sequences, int32_t heads, int32_t head_dim) {
  const int64_t elements = sequences * heads * head_dim;
  std::vector<BFloat16> input(elements), output(elements);
  for (int64_t i = 0; i < elements; ++i) input[i].bits = static_cast<uint16_t>(0x3f00 + (i * 2654435761u >> 13) % 200);
  const AttentionParams params{.dtype = DType::kBFloat16, .q_heads = heads, .kv_heads = heads, .head_dim = head_dim};
  const Strides packed = Strides::Packed(heads, head_dim);
  std::vector<SequenceView> views(sequences);
  for (int64_t i = 0; i < sequences; ++i) {
    BFloat16* in = input.data() + i * heads * head_dim;
    views[i] = {.q_len = 1,
                .kv_len = 1,
                .q = in,
                .k = in,
                .v = in,
                .o = output.data() + i * heads * head_dim,
                .q_strides = packed,
                .k_strides = packed,
                .v_strides = packed,
                .o_strides = packed};
  }
  ASSERT_TRUE(cpu.Forward(params, views, nullptr, nullptr).ok());
  EXPECT_EQ(std::memcmp(input.data(), output.data(), elements * sizeof(BFloat16)), 0);
}

TEST_P(Faults, F10_ManyElementsInABatch) { ExpectEqualsValues(*cpu_, 8300, 16, 128); }

TEST_P(Faults, F10_StridesPast32Bits) {
  // Tokens lie 2^31 elements apart: offsets of 16 GiB and more, in memory of which only the rows are ever touched.
  constexpr int64_t kStride = int64_t{1} << 31;
  constexpr int64_t kTokens = 3;
  constexpr size_t kBytes = (kTokens * kStride) * sizeof(float);
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no address space for " << kBytes << " bytes";
  RandomBatch packed(OneHead(Mask::Causal(), 16), Lengths({{kTokens, kTokens}}), 16);
  Forward(packed);
  float* base = static_cast<float*>(memory);
  SequenceView view = packed.View(0);
  const float* sources[] = {static_cast<const float*>(view.q), static_cast<const float*>(view.k),
                            static_cast<const float*>(view.v)};
  for (int64_t tensor = 0; tensor < 3; ++tensor) {
    for (int64_t token = 0; token < kTokens; ++token) {
      std::memcpy(base + token * kStride + tensor * 1024, sources[tensor] + token * 16, 16 * sizeof(float));
    }
  }
  view.q = base;
  view.k = base + 1024;
  view.v = base + 2048;
  view.o = base + 3072;
  view.lse = base + 4096;
  view.q_strides = view.k_strides = view.v_strides = view.o_strides = view.lse_strides = {kStride, 16};
  ASSERT_TRUE(cpu_->Forward(packed.params(), {&view, 1}, nullptr, nullptr).ok());
  for (int64_t token = 0; token < kTokens; ++token) {
    for (int64_t c = 0; c < 16; ++c) EXPECT_EQ(base[token * kStride + 3072 + c], packed[0].o.Get(token, 0, c));
    EXPECT_EQ(base[token * kStride + 4096], packed[0].lse.Get(token, 0, 0));
  }
  munmap(memory, kBytes);
}

TEST_P(Faults, F11_MoreThan65535Sequences) { ExpectEqualsValues(*cpu_, 70000, 1, 8); }

TEST_P(Faults, F14_WindowsOfEveryWidthAcrossTiles) {
  for (int64_t left : {0, 1, 62, 63, 64, 65, 127, 128, 200}) {
    for (int64_t right : {0, 1, 63, 64}) {
      RandomBatch batch(OneHead(Mask::Window(left, right), 8), Lengths({{130, 260}, {260, 130}}), 17);
      ExpectReference(batch);
    }
  }
}

TEST_P(Faults, F15_TransposedStridesAreHonoured) {
  const AttentionParams params{.q_heads = 4, .kv_heads = 2, .head_dim = 40, .scale = 0.16f, .mask = Mask::Causal()};
  RandomBatch packed(params, Lengths({{37, 50}}), 18, TensorLayout::kPacked);
  RandomBatch transposed(params, Lengths({{37, 50}}), 18, TensorLayout::kHeadsOuter);
  Forward(packed);
  ExpectReference(transposed);
  EXPECT_TRUE(transposed[0].o.Bytes() == packed[0].o.Bytes());
}

INSTANTIATE_TEST_SUITE_P(Targets, Faults, ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return std::string(hwy::TargetName(target.param)); });

}  // namespace
}  // namespace tessera
