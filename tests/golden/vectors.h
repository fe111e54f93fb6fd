// The golden vectors of this folder, loaded. README.md describes the files.
#ifndef TESSERA_TESTS_GOLDEN_VECTORS_H_
#define TESSERA_TESTS_GOLDEN_VECTORS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tessera/v1/attention.pb.h"

namespace tessera::testing {

struct Tolerance {
  double atol = 0;
  double rtol = 0;
};

struct GoldenCase {
  std::string name;
  v1::AttendRequest request;
  std::vector<double> o;
  std::vector<double> lse;
  Tolerance o_tolerance;
  Tolerance lse_tolerance;
};

struct RefusedCase {
  std::string name;
  std::string request;  // serialized; not every one can be parsed
  std::string code;     // such as "INVALID_ARGUMENT"
  std::string names;    // a word of the status message: the field that is wrong
};

// Abort with a message where a file is missing or malformed.
std::vector<GoldenCase> LoadGoldenCases();
std::vector<RefusedCase> LoadRefusedCases();

// Elements of `dtype`, little-endian, widened.
std::vector<double> Widen(v1::DataType dtype, absl::Span<const std::byte> bytes);

// Where `actual` does not agree with `expected`: the first such element, in words. Nothing where all agree.
std::optional<std::string> Disagreement(absl::Span<const double> actual, absl::Span<const double> expected,
                                        const Tolerance& tolerance);

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_GOLDEN_VECTORS_H_
