#include "client/cpp/load/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/random/seed.h"

namespace tessera::load {
namespace {

TEST(HistogramTest, EmptyIsZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.Percentile(50), 0);
  EXPECT_EQ(histogram.min(), 0);
  EXPECT_EQ(histogram.max(), 0);
  EXPECT_EQ(histogram.mean(), 0);
}

TEST(HistogramTest, SmallValuesAreExact) {
  Histogram histogram;
  for (int64_t v = 1; v <= 1000; ++v) histogram.Record(v);
  EXPECT_EQ(histogram.Percentile(0), 1);
  EXPECT_EQ(histogram.Percentile(50), 500);
  EXPECT_EQ(histogram.Percentile(50.01), 501);
  EXPECT_EQ(histogram.Percentile(90), 900);
  EXPECT_EQ(histogram.Percentile(99), 990);
  EXPECT_EQ(histogram.Percentile(99.9), 999);
  EXPECT_EQ(histogram.Percentile(100), 1000);
  EXPECT_DOUBLE_EQ(histogram.mean(), 500.5);
  EXPECT_EQ(histogram.CountAbove(900), 100);
}

TEST(HistogramTest, PercentilesMatchSortedSamplesWithinABucket) {
  const uint64_t seed = tessera::RandomSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> latency(std::log(2e6), 1.5);  // around 2 ms with a long tail
  Histogram histogram;
  std::vector<int64_t> sorted;
  for (int i = 0; i < 20000; ++i) {
    sorted.push_back(static_cast<int64_t>(latency(random)));
    histogram.Record(sorted.back());
  }
  std::sort(sorted.begin(), sorted.end());
  for (const double percentile : {1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 99.99}) {
    const auto rank = static_cast<size_t>(std::ceil(percentile / 100 * 20000 - 1e-6));
    const int64_t exact = sorted[rank - 1];
    EXPECT_GE(histogram.Percentile(percentile), exact) << percentile;
    EXPECT_LE(static_cast<double>(histogram.Percentile(percentile)), static_cast<double>(exact) * (1 + 1.0 / 1024))
        << percentile;
  }
  EXPECT_EQ(histogram.Percentile(100), sorted.back());
  EXPECT_EQ(histogram.min(), sorted.front());
}

TEST(HistogramTest, EveryPowerOfTwoFallsInABucketOfItsOwnWidth) {
  for (int bit = 0; bit < 63; ++bit) {
    for (const int64_t value : {(int64_t{1} << bit) - 1, int64_t{1} << bit, (int64_t{1} << bit) + 1}) {
      Histogram histogram;
      histogram.Record(value);
      histogram.Record(std::numeric_limits<int64_t>::max());  // so that max() does not hide the bucket's edge
      const int64_t edge = histogram.Percentile(50);
      EXPECT_GE(edge, value);
      EXPECT_LE(edge - value, value / 1024) << value;
    }
  }
}

TEST(HistogramTest, MergeEqualsRecordingBoth) {
  Histogram a;
  Histogram b;
  Histogram both;
  for (int64_t v : {5, 70000, 3}) {
    a.Record(v);
    both.Record(v);
  }
  for (int64_t v : {900000000, 1}) {
    b.Record(v);
    both.Record(v);
  }
  a.Merge(b);
  a.Merge(Histogram());
  EXPECT_EQ(a.count(), 5);
  EXPECT_EQ(a.min(), 1);
  EXPECT_EQ(a.max(), 900000000);
  EXPECT_DOUBLE_EQ(a.mean(), both.mean());
  for (double p : {20.0, 40.0, 60.0, 80.0, 100.0}) EXPECT_EQ(a.Percentile(p), both.Percentile(p));
}

TEST(HistogramTest, ClearForgets) {
  Histogram histogram;
  histogram.Record(-7);  // counts as 0
  EXPECT_EQ(histogram.Percentile(100), 0);
  histogram.Record(50);
  histogram.Clear();
  EXPECT_EQ(histogram.count(), 0);
  histogram.Record(9);
  EXPECT_EQ(histogram.min(), 9);
  EXPECT_EQ(histogram.max(), 9);
}

}  // namespace
}  // namespace tessera::load
