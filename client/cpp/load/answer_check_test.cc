#include "client/cpp/load/answer_check.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "client/cpp/load/reference_attention.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::load {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::byte> Floats(std::vector<float> values) {
  std::vector<std::byte> bytes(values.size() * 4);
  for (size_t i = 0; i < values.size(); ++i) {
    StoreElement(v1::DATA_TYPE_FLOAT32, values[i], i, absl::MakeSpan(bytes));
  }
  return bytes;
}

TEST(ReferenceAttentionTest, KnownValues) {
  const CallShape shape = *ParseCallShape("s=1,kv=2,heads=1,d=4,dtype=fp32");
  const auto q = Floats({2, 0, 0, 0});
  const auto k = Floats({static_cast<float>(std::log(3.0)), 5, 0, 0, 0, 7, 0, 0});  // scores ln 3 and 0
  const auto v = Floats({4, 0, -8, 1, 0, 4, 8, 1});
  const ReferenceRow row = ComputeReferenceRow(shape, {q, k, v}, 0, 0, 0);
  const auto near = [](double x) { return DoubleNear(x, 1e-6); };
  EXPECT_THAT(row.o, ElementsAre(near(3), near(1), near(-4), near(1)));
  EXPECT_THAT(row.magnitude, ElementsAre(near(3), near(1), near(8), near(1)));
  EXPECT_NEAR(row.lse, std::log(4.0), 1e-6);
}

TEST(ReferenceAttentionTest, GroupedHeadsSequencesAndMaskSelectTheRightKeys) {
  // Every key scores 0, so o is the mean of the visible values; v tells which those were.
  const CallShape shape = *ParseCallShape("s=2,kv=3,sequences=2,heads=4,kv_heads=2,d=1,dtype=fp32,mask=causal");
  const std::vector<float> zeros(2 * 3 * 2);
  std::vector<float> values(2 * 3 * 2);
  std::iota(values.begin(), values.end(), 0.0f);  // v[sequence][key][kv_head] = 6 sequence + 2 key + kv_head
  const auto q = Floats(std::vector<float>(2 * 2 * 4, 1.0f));
  const auto k = Floats(zeros);
  const auto v = Floats(values);
  for (int64_t sequence = 0; sequence < 2; ++sequence) {
    for (int64_t head = 0; head < 4; ++head) {
      const double base = static_cast<double>(6 * sequence + head / 2);
      EXPECT_NEAR(ComputeReferenceRow(shape, {q, k, v}, sequence, 0, head).o[0], base + 1, 1e-12);
      EXPECT_NEAR(ComputeReferenceRow(shape, {q, k, v}, sequence, 1, head).o[0], base + 2, 1e-12);
    }
  }
}

TEST(ReferenceAttentionTest, RowWithoutKeys) {
  const CallShape shape = *ParseCallShape("s=2,kv=1,heads=1,d=2,dtype=fp32,mask=causal");
  const auto q = Floats({1, 1, 1, 1});
  const auto kv = Floats({1, 1});
  const ReferenceRow row = ComputeReferenceRow(shape, {q, kv, kv}, 0, 0, 0);
  EXPECT_THAT(row.o, ElementsAre(0, 0));
  EXPECT_EQ(row.lse, -std::numeric_limits<double>::infinity());
}

class AnswerCheckTest : public testing::TestWithParam<const char*> {
 protected:
  // A right answer: the reference, rounded to the element type.
  SampledAnswer RightAnswer(uint64_t payload) {
    const CallShape& shape = shapes_[0];
    SampledAnswer answer;
    answer.call = {0, payload};
    answer.o.resize(static_cast<size_t>(shape.o_bytes()));
    answer.lse.resize(static_cast<size_t>(shape.lse_bytes()));
    size_t pair = 0;
    for (int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
      for (int64_t row = 0; row < shape.q_length; ++row) {
        for (int64_t head = 0; head < shape.q_heads; ++head, ++pair) {
          const ReferenceRow r = ComputeReferenceRow(shape, pool_.Get(0, payload), sequence, row, head);
          for (size_t i = 0; i < r.o.size(); ++i) {
            StoreElement(shape.dtype, static_cast<float>(r.o[i]), pair * r.o.size() + i, absl::MakeSpan(answer.o));
          }
          if (shape.return_lse) {
            StoreElement(v1::DATA_TYPE_FLOAT32, static_cast<float>(r.lse), pair, absl::MakeSpan(answer.lse));
          }
        }
      }
    }
    return answer;
  }

  const std::vector<CallShape> shapes_ = {*ParseCallShape(GetParam())};
  const PayloadPool pool_{shapes_, 2, 5};
};

TEST_P(AnswerCheckTest, AcceptsRightAnswers) {
  const CheckResult result = CheckAnswers({RightAnswer(0), RightAnswer(1)}, shapes_, pool_, 16, 1);
  EXPECT_EQ(result.answers, 2);
  EXPECT_EQ(result.rows, 32);
  EXPECT_EQ(result.wrong_rows, 0) << result.first_wrong;
  EXPECT_LT(result.worst, 0.3);
}

TEST_P(AnswerCheckTest, RefusesAnotherCallsAnswer) {
  SampledAnswer answer = RightAnswer(0);
  answer.call.payload = 1;
  const CheckResult result = CheckAnswers({answer}, shapes_, pool_, 16, 1);
  EXPECT_EQ(result.wrong_rows, 16);
  EXPECT_THAT(result.first_wrong, HasSubstr(shapes_[0].name));
}

TEST_P(AnswerCheckTest, RefusesNaN) {
  SampledAnswer answer = RightAnswer(0);
  for (std::byte& b : answer.o) b = std::byte{0xff};
  EXPECT_EQ(CheckAnswers({answer}, shapes_, pool_, 16, 1).wrong_rows, 16);
}

TEST_P(AnswerCheckTest, RefusesAnErrorTwiceTheRounding) {
  // One element off by 8 roundings of the type at the magnitude of v.
  SampledAnswer answer = RightAnswer(0);
  const CallShape& shape = shapes_[0];
  const double relative = shape.dtype == v1::DATA_TYPE_FLOAT32   ? 1e-4
                          : shape.dtype == v1::DATA_TYPE_FLOAT16 ? 0.01
                                                                 : 0.1;
  for (size_t i = 0; i < answer.o.size() / static_cast<size_t>(ElementBytes(shape.dtype)); ++i) {
    const float value = LoadElement(shape.dtype, answer.o, i);
    StoreElement(shape.dtype, static_cast<float>(value + 2 * relative), i, absl::MakeSpan(answer.o));
  }
  EXPECT_EQ(CheckAnswers({answer}, shapes_, pool_, 16, 1).wrong_rows, 16);
}

INSTANTIATE_TEST_SUITE_P(Shapes, AnswerCheckTest,
                         testing::Values("s=8,kv=12,heads=4,kv_heads=2,d=32,dtype=bf16,mask=causal,lse=1",
                                         "s=8,heads=2,d=16,dtype=fp16,mask=window:2:1,sequences=3",
                                         "s=8,heads=2,d=16,dtype=fp32"));

TEST(AnswerCheckLseTest, RefusesAWrongLse) {
  const std::vector<CallShape> shapes = {*ParseCallShape("s=1,kv=2,heads=1,d=2,dtype=fp32,lse=1")};
  const PayloadPool pool(shapes, 1, 5);
  const ReferenceRow row = ComputeReferenceRow(shapes[0], pool.Get(0, 0), 0, 0, 0);
  SampledAnswer answer;
  answer.o = Floats({static_cast<float>(row.o[0]), static_cast<float>(row.o[1])});
  answer.lse = Floats({static_cast<float>(row.lse)});
  EXPECT_EQ(CheckAnswers({answer}, shapes, pool, 1, 1).wrong_rows, 0);
  answer.lse = Floats({static_cast<float>(row.lse + 0.01)});
  EXPECT_EQ(CheckAnswers({answer}, shapes, pool, 1, 1).wrong_rows, 1);
}

// Answers at once with the payload's ordinal as o.
class NumberingTarget : public Target {
 public:
  void Issue(const Call& call, AnswerCallback done) override {
    const auto o = static_cast<std::byte>(call.payload);
    Answer answer;
    answer.o = absl::MakeConstSpan(&o, 1);
    if (call.payload % 2 == 1) answer.status = absl::UnavailableError("odd");
    done(answer);
  }
};

TEST(AnswerSamplerTest, SamplesOkAnswersUniformly) {
  NumberingTarget inner;
  int in_last_half = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    AnswerSampler sampler(&inner, 4, seed);
    int answered = 0;
    for (uint64_t i = 0; i < 200; ++i) sampler.Issue({0, i}, [&](const Answer&) { ++answered; });
    EXPECT_EQ(answered, 200);
    const auto sample = sampler.TakeSample();
    ASSERT_EQ(sample.size(), 4u);
    std::set<uint64_t> distinct;
    for (const SampledAnswer& answer : sample) {
      EXPECT_EQ(answer.call.payload % 2, 0u);
      EXPECT_THAT(answer.o, ElementsAre(static_cast<std::byte>(answer.call.payload)));
      distinct.insert(answer.call.payload);
      in_last_half += answer.call.payload >= 100;
    }
    EXPECT_EQ(distinct.size(), 4u);
  }
  EXPECT_NEAR(in_last_half, 1000, 4 * 23);  // binomial: 2000 draws of 1/2
}

}  // namespace
}  // namespace tessera::load
