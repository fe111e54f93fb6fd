#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/ptx/math.h"
#include "kernels/cuda/testing/device_array.h"

namespace tessera::cuda {
namespace {

__global__ void Compute(const float* x, int count, float* exp2, float* reciprocal) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    exp2[i] = ptx::Exp2(x[i]);
    reciprocal[i] = ptx::Reciprocal(x[i]);
  }
}

class MathTest : public ::testing::Test {
 protected:
  void Run(const std::vector<float>& x) {
    const DeviceArray<float> in(x), exp2(x), reciprocal(x);
    Compute<<<1, 256>>>(in.data(), static_cast<int>(x.size()), exp2.data(), reciprocal.data());
    exp2_ = exp2.Read();
    reciprocal_ = reciprocal.Read();
  }

  std::vector<float> exp2_, reciprocal_;
};

TEST_F(MathTest, StaysWithinItsErrors) {
  std::vector<float> x;
  for (float v = -125.0f; v < 60.0f; v += 0.0137f) x.push_back(v);
  Run(x);
  for (size_t i = 0; i < x.size(); ++i) {
    const double power = std::exp2(static_cast<double>(x[i]));
    EXPECT_NEAR(exp2_[i], power, power * 0x1p-21) << x[i];
    const double inverse = 1 / static_cast<double>(x[i]);
    EXPECT_NEAR(reciprocal_[i], inverse, std::abs(inverse) * 0x1p-22) << x[i];
  }
}

TEST_F(MathTest, SpecialValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  Run({-kInf, -130.0f, 0.0f, -0.0f, 1.0f, kInf, std::nanf("")});
  EXPECT_EQ(exp2_[0], 0.0f);
  EXPECT_EQ(exp2_[1], 0.0f);  // subnormal: flushed
  EXPECT_EQ(exp2_[2], 1.0f);
  EXPECT_EQ(exp2_[3], 1.0f);
  EXPECT_EQ(exp2_[4], 2.0f);
  EXPECT_EQ(exp2_[5], kInf);
  EXPECT_TRUE(std::isnan(exp2_[6]));
  EXPECT_EQ(reciprocal_[4], 1.0f);
  EXPECT_EQ(reciprocal_[5], 0.0f);
}

}  // namespace
}  // namespace tessera::cuda
