#include "client/cpp/cli/byte_size.h"

#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tessera {
namespace {

// 0 for what is no unit.
int64_t UnitBytes(absl::string_view unit) {
  if (unit.empty() || unit == "B") return 1;
  if (unit == "KiB" || unit == "KB") return int64_t{1} << 10;
  if (unit == "MiB" || unit == "MB") return int64_t{1} << 20;
  if (unit == "GiB" || unit == "GB") return int64_t{1} << 30;
  return 0;
}

}  // namespace

bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error) {
  size_t digits = 0;
  while (digits < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[digits]))) ++digits;
  const int64_t unit = UnitBytes(absl::StripAsciiWhitespace(text.substr(digits)));
  int64_t count = 0;
  if (unit == 0 || !absl::SimpleAtoi(text.substr(0, digits), &count) ||
      count > std::numeric_limits<int64_t>::max() / unit) {
    *error = "expected a whole number of bytes, such as 65536, 192KiB or 4MiB";
    return false;
  }
  size->bytes = count * unit;
  return true;
}

std::string AbslUnparseFlag(const ByteSize& size) { return absl::StrCat(size.bytes); }

std::string FormatBytes(uint64_t bytes) {
  constexpr absl::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  const bool whole = value == static_cast<double>(static_cast<uint64_t>(value));
  return absl::StrFormat("%.*f %s", whole ? 0 : 1, value, kUnits[unit]);
}

}  // namespace tessera
