#include "client/cpp/load/arrival.h"

#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"

namespace tessera::load {
namespace {

TEST(ArrivalTest, ConstantIsEvenAndDoesNotDrift) {
  const auto arrivals = PlanArrivals(ArrivalProcess::kConstant, 300, absl::Seconds(1000), 1);
  ASSERT_EQ(arrivals.size(), 300000u);
  EXPECT_EQ(arrivals.front(), absl::ZeroDuration());
  EXPECT_EQ(arrivals[150000], absl::Seconds(500));
  EXPECT_LT(arrivals.back(), absl::Seconds(1000));
}

TEST(ArrivalTest, PoissonHasTheRateAndTheVarianceOfIndependentArrivals) {
  constexpr double kRate = 2000;
  const auto arrivals = PlanArrivals(ArrivalProcess::kPoisson, kRate, absl::Seconds(100), 7);
  EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
  EXPECT_LT(arrivals.back(), absl::Seconds(100));
  // The count is Poisson of mean 200,000, so of standard deviation 447.
  EXPECT_NEAR(static_cast<double>(arrivals.size()), 200000, 4 * 447);

  double sum = 0;
  double sum_of_squares = 0;
  int over_mean = 0;
  for (size_t i = 1; i < arrivals.size(); ++i) {
    const double gap = absl::ToDoubleSeconds(arrivals[i] - arrivals[i - 1]);
    sum += gap;
    sum_of_squares += gap * gap;
    over_mean += gap > 1 / kRate;
  }
  const double n = static_cast<double>(arrivals.size() - 1);
  const double mean = sum / n;
  const double deviation = std::sqrt(sum_of_squares / n - mean * mean);
  // Of an exponential distribution, deviation equals mean, and exp(-1) of the gaps exceed it.
  EXPECT_NEAR(deviation / mean, 1, 0.02);
  EXPECT_NEAR(over_mean / n, std::exp(-1.0), 0.01);
}

TEST(ArrivalTest, SeedDecides) {
  const auto a = PlanArrivals(ArrivalProcess::kPoisson, 100, absl::Seconds(1), 1);
  EXPECT_EQ(a, PlanArrivals(ArrivalProcess::kPoisson, 100, absl::Seconds(1), 1));
  EXPECT_NE(a, PlanArrivals(ArrivalProcess::kPoisson, 100, absl::Seconds(1), 2));
}

}  // namespace
}  // namespace tessera::load
