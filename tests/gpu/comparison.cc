#include "tests/gpu/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/gpu/reference.h"

namespace tessera::gpu_test {
namespace {

constexpr double kUntouched = -1.2345678901234e300;

struct Reference {
  std::vector<double> o, lse;
};

Reference RunReference(const Case& test, const Inputs& inputs, Rounding rounding) {
  const std::vector<double> untouched_o(inputs.o.elements, kUntouched), untouched_lse(inputs.lse.elements, kUntouched);
  DeviceBuffer o(untouched_o.size() * sizeof(double)), lse(untouched_lse.size() * sizeof(double));
  o.Upload(untouched_o);
  lse.Upload(untouched_lse);
  const std::vector<SequenceView> views = Views(test, inputs, nullptr, nullptr);
  for (size_t s = 0; s < views.size(); ++s) {
    Check(ReferenceForward(test.params, views[s], rounding, o.as<double>() + inputs.o.offsets[s],
                           test.lse ? lse.as<double>() + inputs.lse.offsets[s] : nullptr, nullptr),
          "reference");
  }
  Check(cudaDeviceSynchronize(), "reference");
  return {o.Download<double>(), lse.Download<double>()};
}

}  // namespace

std::string Compare(const Case& test, const Inputs& inputs, const Output& output, bool stores_scores,
                    double* worst_ratio) {
  if (output.o.empty()) return "refused";
  const Reference exact = RunReference(test, inputs, Rounding::kNone);
  const Reference standard = RunReference(test, inputs, Rounding::kStandard);
  const DType dtype = test.params.dtype;
  const int64_t size = SizeOf(dtype);
  double error = 0, standard_error = 0, scale = 0;
  for (int64_t i = 0; i < inputs.o.elements; ++i) {
    const unsigned char* element = &output.o[i * size];
    if (exact.o[i] == kUntouched) {
      for (int64_t b = 0; b < size; ++b) {
        if (element[b] != kPoison) return "o written outside of its rows at element " + std::to_string(i);
      }
      continue;
    }
    const double value = Decode(dtype, element);
    if (!std::isfinite(exact.o[i])) {
      if (std::isfinite(value)) return "o finite where a visible value is not, element " + std::to_string(i);
      continue;
    }
    if (!std::isfinite(value)) return "o not finite at element " + std::to_string(i);
    if (exact.o[i] == 0 && value != 0) return "o not zero in a row that sees no key, element " + std::to_string(i);
    error = std::max(error, std::abs(value - exact.o[i]));
    standard_error = std::max(standard_error, std::abs(standard.o[i] - exact.o[i]));
    scale = std::max(scale, std::abs(exact.o[i]));
  }
  const double epsilon = dtype == DType::kFloat32 ? 1e-6 : dtype == DType::kFloat16 ? 1e-3 : 8e-3;
  const double bound = (test.params.softcap > 0 ? 3 : 2) * standard_error + epsilon * std::max(scale, 1e-3) / 8;
  if (bound > 0) *worst_ratio = std::max(*worst_ratio, error / bound);
  if (!(error <= bound)) return "o off by " + std::to_string(error) + ", bound " + std::to_string(bound);
  // LSE is fp32 whatever the element type, but of scores that were stored it can be no better than they are.
  double lse_error = 0;
  for (int64_t i = 0; stores_scores && test.lse && i < inputs.lse.elements; ++i) {
    if (std::isfinite(exact.lse[i])) lse_error = std::max(lse_error, std::abs(standard.lse[i] - exact.lse[i]));
  }
  for (int64_t i = 0; test.lse && i < inputs.lse.elements; ++i) {
    float value;
    std::memcpy(&value, &output.lse[i * 4], 4);
    if (exact.lse[i] == kUntouched) {
      if (output.lse[i * 4] != kPoison) return "lse written outside of its rows";
      continue;
    }
    if (!std::isfinite(exact.lse[i])) {
      if (std::isnan(exact.lse[i]) ? !std::isnan(value) : value != exact.lse[i]) {
        return "lse " + std::to_string(value) + " for " + std::to_string(exact.lse[i]);
      }
      continue;
    }
    const double tolerance =
        2e-5 * std::max(1.0, std::abs(exact.lse[i])) + (test.params.softcap > 0 ? 1e-4 : 0) + 2 * lse_error;
    if (!(std::abs(value - exact.lse[i]) <= tolerance)) {
      return "lse " + std::to_string(value) + " for " + std::to_string(exact.lse[i]);
    }
  }
  return "";
}

}  // namespace tessera::gpu_test
