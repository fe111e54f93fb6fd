#include "client/cpp/load/decode/step_sampler.h"

#include <vector>

#include "client/cpp/load/reference_attention.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::load {
namespace {

constexpr int64_t kMostTokens = 40;

CallShape Heads() {
  CallShape shape = *ParseCallShape("s=1,heads=4,kv_heads=2,d=8,dtype=fp32");
  return shape;
}

class StepSamplerTest : public testing::Test {
 protected:
  // What a server that is right answers: rows computed one by one from the bank, not from what the sampler gathers.
  std::vector<std::byte> RightAnswer(int64_t start, int64_t position, int64_t tokens) const {
    std::vector<std::byte> o;
    for (int64_t row = 0; row < tokens; ++row) {
      CallShape shape = Heads();
      shape.q_length = 1;
      shape.kv_length = position + row + 1;
      std::vector<std::byte> k, v;
      for (int64_t key = 0; key < shape.kv_length; ++key) {
        const auto k_row = bank_.K(start, key, 1), v_row = bank_.V(start, key, 1);
        k.insert(k.end(), k_row.begin(), k_row.end());
        v.insert(v.end(), v_row.begin(), v_row.end());
      }
      const Payload payload = {bank_.Q(start, position + row, 1), k, v};
      for (int64_t head = 0; head < shape.q_heads; ++head) {
        std::vector<std::byte> elements(8 * 4);
        const ReferenceRow expected = ComputeReferenceRow(shape, payload, 0, 0, head);
        for (size_t i = 0; i < 8; ++i) {
          StoreElement(shape.dtype, static_cast<float>(expected.o[i]), i, absl::MakeSpan(elements));
        }
        o.insert(o.end(), elements.begin(), elements.end());
      }
    }
    return o;
  }

  const RowBank bank_{4, 2, 8, v1::DATA_TYPE_FLOAT32, kMostTokens, 3};
};

TEST_F(StepSamplerTest, RightAnswersPassAndOthersDoNot) {
  // Beyond the bank's end, and a chunk of a prefill.
  for (const auto& [start, position, tokens] : {std::tuple{int64_t{0}, int64_t{0}, int64_t{1}},
                                                {RowBank::kRows - 3, int64_t{7}, int64_t{5}},
                                                {int64_t{5}, RowBank::kRows + 9, int64_t{2}}}) {
    StepSampler right(4, 1);
    right.Offer({start, position, tokens, {}}, RightAnswer(start, position, tokens));
    const CheckResult good = right.Check(bank_, Heads(), 16, 1);
    EXPECT_EQ(good.answers, 1);
    EXPECT_GT(good.rows, 0);
    EXPECT_EQ(good.wrong_rows, 0) << good.first_wrong;
    StepSampler wrong(4, 1);
    wrong.Offer({start + 1, position, tokens, {}}, RightAnswer(start, position, tokens));
    EXPECT_GT(wrong.Check(bank_, Heads(), 16, 1).wrong_rows, 0);
  }
}

TEST_F(StepSamplerTest, TheSampleIsUniform) {
  constexpr int kOffers = 1000;
  constexpr int kSamples = 400;
  const std::vector<std::byte> nothing(4 * 8 * 4);
  int late = 0;
  for (int i = 0; i < kSamples; ++i) {
    StepSampler sampler(1, static_cast<uint64_t>(i));
    for (int64_t offer = 0; offer < kOffers; ++offer) sampler.Offer({0, offer, 1, {}}, nothing);
    const CheckResult result = sampler.Check(bank_, Heads(), 1, 1);
    EXPECT_EQ(result.answers, 1);
    // "1 tokens at POSITION: ..."
    late += std::stoi(result.first_wrong.substr(result.first_wrong.find("at ") + 3)) >= kOffers / 2;
  }
  EXPECT_NEAR(late, kSamples / 2, 60);
}

TEST(RowBankTest, RowsThatFollowOneAnotherLieSo) {
  const RowBank bank(4, 2, 8, v1::DATA_TYPE_BFLOAT16, kMostTokens, 3);
  const auto many = bank.K(RowBank::kRows - 2, 1, 5);
  ASSERT_EQ(many.size(), static_cast<size_t>(5 * bank.kv_row_bytes()));
  for (int64_t i = 0; i < 5; ++i) {
    const auto row = static_cast<size_t>(bank.kv_row_bytes());
    EXPECT_EQ(many.subspan(static_cast<size_t>(i) * row, row), bank.K(RowBank::kRows - 2, 1 + i, 1)) << i;
  }
  EXPECT_EQ(bank.Q(0, RowBank::kRows, 1), bank.Q(0, 0, 1));
  EXPECT_NE(bank.Q(0, 1, 1), bank.Q(0, 0, 1));
  EXPECT_NE(bank.K(0, 0, 1), bank.V(0, 0, 1));
  EXPECT_NE(RowBank::StartOf(0, 0), RowBank::StartOf(0, 1));
  EXPECT_NE(RowBank::StartOf(0, 0), RowBank::StartOf(1, 0));
}

}  // namespace
}  // namespace tessera::load
