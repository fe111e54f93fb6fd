#include "server/config/byte_size.h"

#include <array>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tessera {
namespace {

constexpr std::array<std::pair<const char*, int>, 4> kUnits = {{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}}};

}  // namespace

bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error) {
  int shift = 0;
  for (const auto& [unit, bits] : kUnits) {
    if (absl::ConsumeSuffix(&text, unit)) {
      shift = bits;
      break;
    }
  }
  int64_t count;
  if (!absl::SimpleAtoi(text, &count) || count < 0 || count > (std::numeric_limits<int64_t>::max() >> shift)) {
    *error = "a size is a whole number, bare or with KiB, MiB, GiB or TiB behind it";
    return false;
  }
  size->bytes = count << shift;
  return true;
}

std::string AbslUnparseFlag(ByteSize size) {
  for (const auto& [unit, bits] : kUnits) {
    const int64_t unit_bytes = int64_t{1} << bits;
    if (size.bytes > 0 && size.bytes % unit_bytes == 0) return absl::StrCat(size.bytes / unit_bytes, unit);
  }
  return absl::StrCat(size.bytes);
}

}  // namespace tessera
