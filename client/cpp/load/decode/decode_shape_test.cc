#include "client/cpp/load/decode/decode_shape.h"

#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::load {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DecodeShapeTest, EveryKeyIsRead) {
  const auto shape =
      ParseDecodeShape("profile=main, heads=32,layers=4,prefill=100~60000,steps=8/16,tokens=2,chunk=256,group=3");
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->profile, "main");
  EXPECT_EQ(shape->q_heads, 32);
  EXPECT_EQ(shape->layers, 4);
  EXPECT_EQ(shape->prefill.kind, LengthMix::Kind::kSkewed);
  EXPECT_THAT(shape->prefill.values, ElementsAre(100, 60000));
  EXPECT_EQ(shape->prefill.longest(), 60000);
  EXPECT_THAT(shape->steps.values, ElementsAre(8, 16));
  EXPECT_EQ(shape->tokens, 2);
  EXPECT_EQ(shape->group, 3);
  EXPECT_EQ(shape->most_tokens(), 256);
  EXPECT_EQ(ParseDecodeShape("profile=p,prefill=3,tokens=5")->most_tokens(), 5);
}

TEST(DecodeShapeTest, RefusalsNameTheKey) {
  for (const auto& [text, key] : {std::pair{"heads=1", "profile"},
                                  {"profile=p,heads=0", "heads"},
                                  {"profile=p,layers=x", "layers"},
                                  {"profile=p,prefill=-1", "prefill"},
                                  {"profile=p,prefill=9..3", "prefill"},
                                  {"profile=p,prefill=0~3", "prefill"},
                                  {"profile=p,steps=0", "steps"},
                                  {"profile=p,steps=1/", "steps"},
                                  {"profile=p,tokens=0", "tokens"},
                                  {"profile=p,chunk=0", "chunk"},
                                  {"profile=p,group=0", "group"},
                                  {"profile=p,width=1", "width"}}) {
    const absl::Status status = ParseDecodeShape(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(key)) << text;
  }
}

TEST(LengthMixTest, DrawsFollowTheKind) {
  constexpr int kDraws = 20000;
  std::mt19937_64 random(7);
  const auto share_up_to = [&](const char* text, int64_t bound) {
    const LengthMix mix = *ParseLengthMix("prefill", text, 0);
    int below = 0;
    for (int i = 0; i < kDraws; ++i) {
      const int64_t length = mix.Draw(random);
      EXPECT_GE(length, 100);
      EXPECT_LE(length, 10000);
      below += length <= bound;
    }
    return static_cast<double>(below) / kDraws;
  };
  EXPECT_NEAR(share_up_to("100/10000", 100), 0.5, 0.02);
  EXPECT_NEAR(share_up_to("100..10000", 1000), 0.091, 0.01);
  EXPECT_NEAR(share_up_to("100~10000", 1000), 0.5, 0.02);
  EXPECT_EQ(share_up_to("100~100", 100), 1);
}

}  // namespace
}  // namespace tessera::load
