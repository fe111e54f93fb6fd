#include "client/cpp/load/workload.h"

#include <cmath>

#include "client/cpp/load/payload_pool.h"
#include "gtest/gtest.h"

namespace tessera::load {
namespace {

TEST(WorkloadTest, MixFollowsTheWeights) {
  Workload workload({*ParseCallShape("s=1,weight=3"), *ParseCallShape("s=2,weight=1")}, 42);
  constexpr int kCalls = 40000;
  int first = 0;
  for (int i = 0; i < kCalls; ++i) {
    const Call call = workload.Next();
    EXPECT_EQ(call.payload, static_cast<uint64_t>(i));
    first += call.shape == 0;
  }
  EXPECT_NEAR(first, 0.75 * kCalls, 4 * std::sqrt(kCalls * 0.75 * 0.25));
}

TEST(WorkloadTest, SeedDecides) {
  const std::vector<CallShape> shapes = {*ParseCallShape("s=1"), *ParseCallShape("s=2")};
  Workload a(shapes, 1);
  Workload b(shapes, 1);
  Workload c(shapes, 2);
  int differ = 0;
  for (int i = 0; i < 100; ++i) {
    const size_t shape = a.Next().shape;
    EXPECT_EQ(shape, b.Next().shape);
    differ += shape != c.Next().shape;
  }
  EXPECT_GT(differ, 0);
}

TEST(PayloadPoolTest, TensorsHaveTheirSizesAndANormalDistribution) {
  const std::vector<CallShape> shapes = {*ParseCallShape("s=64,kv=96,heads=4,kv_heads=2,d=32,dtype=fp16"),
                                         *ParseCallShape("s=64,heads=4,d=32,dtype=fp32"),
                                         *ParseCallShape("s=0,heads=4,d=32")};
  const PayloadPool pool(shapes, 2, 9);
  for (size_t i = 0; i < 2; ++i) {
    const Payload payload = pool.Get(i, 5);
    EXPECT_EQ(static_cast<int64_t>(payload.q.size()), shapes[i].q_bytes());
    EXPECT_EQ(static_cast<int64_t>(payload.k.size()), shapes[i].kv_bytes());
    EXPECT_EQ(static_cast<int64_t>(payload.v.size()), shapes[i].kv_bytes());
    EXPECT_EQ(payload.all().data(), payload.q.data());
    EXPECT_EQ(payload.all().size(), payload.q.size() + payload.k.size() + payload.v.size());
    double sum = 0;
    double squares = 0;
    const size_t n = payload.all().size() / static_cast<size_t>(ElementBytes(shapes[i].dtype));
    for (size_t j = 0; j < n; ++j) {
      const double x = LoadElement(shapes[i].dtype, payload.all(), j);
      sum += x;
      squares += x * x;
    }
    EXPECT_NEAR(sum / static_cast<double>(n), 0, 5 / std::sqrt(n));
    EXPECT_NEAR(squares / static_cast<double>(n), 1, 8 / std::sqrt(n));
  }
  EXPECT_TRUE(pool.Get(2, 0).all().empty());
  EXPECT_EQ(pool.bytes(), 2 * (shapes[0].request_bytes() + shapes[1].request_bytes()));
}

TEST(PayloadPoolTest, OrdinalsWrapAndPayloadsDiffer) {
  const std::vector<CallShape> shapes = {*ParseCallShape("s=4,heads=1,d=8")};
  const PayloadPool pool(shapes, 3, 9);
  EXPECT_EQ(pool.Get(0, 0).q.data(), pool.Get(0, 3).q.data());
  EXPECT_NE(pool.Get(0, 0).all(), pool.Get(0, 1).all());
  EXPECT_EQ(pool.Get(0, 0).all(), PayloadPool(shapes, 3, 9).Get(0, 0).all());
}

}  // namespace
}  // namespace tessera::load
