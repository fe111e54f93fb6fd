#include "client/cpp/load/call_shape.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::load {
namespace {

using ::testing::HasSubstr;

TEST(CallShapeTest, ParsesEveryKey) {
  const auto shape = ParseCallShape(
      "s=16, kv=64,sequences=3,heads=8,kv_heads=2,d=64,dtype=fp32,mask=window:7:-1,lse=1,weight=2.5,priority=high,"
      "tenant=blue,timeout=50ms,name=mine");
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->q_length, 16);
  EXPECT_EQ(shape->kv_length, 64);
  EXPECT_EQ(shape->sequences, 3);
  EXPECT_EQ(shape->q_heads, 8);
  EXPECT_EQ(shape->kv_heads, 2);
  EXPECT_EQ(shape->head_dim, 64);
  EXPECT_EQ(shape->dtype, v1::DATA_TYPE_FLOAT32);
  EXPECT_EQ(shape->mask, v1::MASK_KIND_WINDOW);
  EXPECT_EQ(shape->window_left, 7);
  EXPECT_EQ(shape->window_right, kUnboundedWindow);
  EXPECT_TRUE(shape->return_lse);
  EXPECT_EQ(shape->weight, 2.5);
  EXPECT_EQ(shape->priority, v1::PRIORITY_HIGH);
  EXPECT_EQ(shape->tenant, "blue");
  EXPECT_EQ(shape->timeout, absl::Milliseconds(50));
  EXPECT_EQ(shape->name, "mine");
  EXPECT_EQ(shape->q_bytes(), 3 * 16 * 8 * 64 * 4);
  EXPECT_EQ(shape->kv_bytes(), 3 * 64 * 2 * 64 * 4);
  EXPECT_EQ(shape->request_bytes(), shape->q_bytes() + 2 * shape->kv_bytes());
  EXPECT_EQ(shape->response_bytes(), shape->q_bytes() + 3 * 16 * 8 * 4);
}

TEST(CallShapeTest, DefaultsFollowFromOtherKeys) {
  const auto shape = ParseCallShape("s=128,heads=16,d=128,dtype=bf16,mask=causal");
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->kv_length, 128);
  EXPECT_EQ(shape->kv_heads, 16);
  EXPECT_EQ(shape->name, "s128 h16 d128 bf16 causal");
  EXPECT_EQ(shape->request_bytes() + shape->response_bytes(), 2 << 20);
}

TEST(CallShapeTest, RefusalsNameTheKey) {
  for (const auto& [text, key] : {std::pair{"s=-1", "s"},
                                  {"s=x", "s"},
                                  {"sequences=0", "sequences"},
                                  {"d=0", "d"},
                                  {"dtype=int8", "dtype"},
                                  {"mask=window:1", "mask"},
                                  {"mask=window:-2:0", "mask"},
                                  {"lse=maybe", "lse"},
                                  {"weight=0", "weight"},
                                  {"weight=nan", "weight"},
                                  {"priority=urgent", "priority"},
                                  {"timeout=0s", "timeout"},
                                  {"colour=red", "colour"},
                                  {"heads=6,kv_heads=4", "heads"},
                                  {"s=16777216,heads=4096", "s="}}) {
    const auto shape = ParseCallShape(text);
    ASSERT_FALSE(shape.ok()) << text;
    EXPECT_EQ(shape.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(shape.status().message()), HasSubstr(key));
  }
}

TEST(CallShapeTest, UsefulFlopsCountVisiblePairsOnly) {
  EXPECT_EQ(ParseCallShape("s=10,heads=2,d=8")->UsefulFlops(), 4 * 8 * 2 * 100);
  EXPECT_EQ(ParseCallShape("s=10,heads=2,d=8,mask=causal")->UsefulFlops(), 4 * 8 * 2 * 55);
  // Bottom-right alignment: the one row of a decode sees every key, the first of two rows all but the last.
  EXPECT_EQ(ParseCallShape("s=1,kv=10,heads=2,d=8,mask=causal")->UsefulFlops(), 4 * 8 * 2 * 10);
  EXPECT_EQ(ParseCallShape("s=2,kv=10,heads=2,d=8,mask=causal")->UsefulFlops(), 4 * 8 * 2 * 19);
  // More rows than keys: the first ones see nothing.
  EXPECT_EQ(ParseCallShape("s=5,kv=2,heads=2,d=8,mask=causal")->UsefulFlops(), 4 * 8 * 2 * 3);
  EXPECT_EQ(ParseCallShape("s=4,heads=1,d=8,mask=window:1:1,sequences=2")->UsefulFlops(), 4 * 8 * 2 * 10);
}

}  // namespace
}  // namespace tessera::load
