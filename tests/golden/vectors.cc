#include "tests/golden/vectors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace tessera::testing {
namespace {

std::string ReadFile(const std::string& name) {
  const std::string path = absl::StrCat(TESSERA_GOLDEN_VECTORS, "/", name);
  std::ifstream file(path, std::ios::binary);
  if (!file) ABSL_RAW_LOG(FATAL, "cannot open %s", path.c_str());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

nlohmann::json Manifest() { return nlohmann::json::parse(ReadFile("manifest.json")); }

double WidenHalf(uint16_t bits) {
  const double sign = bits >> 15 != 0 ? -1 : 1;
  const int exponent = bits >> 10 & 0x1f;
  const int fraction = bits & 0x3ff;
  if (exponent == 0x1f) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(fraction | 0x400, exponent - 25);
}

bool Agree(double actual, double expected, const Tolerance& tolerance) {
  if (std::isnan(actual) || std::isnan(expected)) return std::isnan(actual) && std::isnan(expected);
  if (actual == expected) return true;
  if (!std::isfinite(actual) || !std::isfinite(expected)) return false;
  return std::abs(actual - expected) <= tolerance.atol + tolerance.rtol * std::abs(expected);
}

}  // namespace

std::vector<GoldenCase> LoadGoldenCases() {
  std::vector<GoldenCase> cases;
  const nlohmann::json manifest = Manifest();
  for (const nlohmann::json& entry : manifest.at("cases")) {
    GoldenCase& golden = cases.emplace_back();
    golden.name = entry.at("name");
    if (!golden.request.ParseFromString(ReadFile(golden.name + ".request"))) {
      ABSL_RAW_LOG(FATAL, "%s.request is no AttendRequest", golden.name.c_str());
    }
    const std::string expected = ReadFile(golden.name + ".expected");
    golden.o.resize(entry.at("o_elements"));
    golden.lse.resize(entry.at("lse_elements"));
    const size_t o_bytes = golden.o.size() * sizeof(double);
    if (expected.size() != o_bytes + golden.lse.size() * sizeof(double)) {
      ABSL_RAW_LOG(FATAL, "%s.expected has %zu bytes", golden.name.c_str(), expected.size());
    }
    std::copy_n(expected.begin(), o_bytes, reinterpret_cast<char*>(golden.o.data()));
    std::copy(expected.begin() + static_cast<ptrdiff_t>(o_bytes), expected.end(),
              reinterpret_cast<char*>(golden.lse.data()));
    golden.o_tolerance = {entry.at("atol"), entry.at("rtol")};
    golden.lse_tolerance = {entry.at("lse_atol"), entry.at("lse_rtol")};
  }
  return cases;
}

std::vector<RefusedCase> LoadRefusedCases() {
  std::vector<RefusedCase> cases;
  const nlohmann::json manifest = Manifest();
  for (const nlohmann::json& entry : manifest.at("refused")) {
    const std::string name = entry.at("name");
    cases.push_back({name, ReadFile(name + ".request"), entry.at("code"), entry.at("names")});
  }
  return cases;
}

std::vector<double> Widen(v1::DataType dtype, absl::Span<const std::byte> bytes) {
  const size_t element_bytes = dtype == v1::DATA_TYPE_FLOAT32 ? 4 : 2;
  std::vector<double> values(bytes.size() / element_bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * element_bytes, element_bytes);
    if (dtype == v1::DATA_TYPE_FLOAT16) {
      values[i] = WidenHalf(static_cast<uint16_t>(bits));
    } else {
      values[i] = std::bit_cast<float>(dtype == v1::DATA_TYPE_BFLOAT16 ? bits << 16 : bits);
    }
  }
  return values;
}

std::optional<std::string> Disagreement(absl::Span<const double> actual, absl::Span<const double> expected,
                                        const Tolerance& tolerance) {
  if (actual.size() != expected.size()) {
    return absl::StrCat(actual.size(), " elements, expected ", expected.size());
  }
  for (size_t i = 0; i < actual.size(); ++i) {
    if (!Agree(actual[i], expected[i], tolerance)) {
      return absl::StrCat("element ", i, " is ", actual[i], ", expected ", expected[i], " within ", tolerance.atol,
                          " + ", tolerance.rtol, " of it");
    }
  }
  return std::nullopt;
}

}  // namespace tessera::testing
