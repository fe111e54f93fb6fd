#include "client/cpp/cli/npy.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tessera {
namespace {

constexpr absl::string_view kMagic = "\x93NUMPY";
constexpr size_t kPrefixBytes = 8;  // magic and version
constexpr size_t kAlignment = 64;   // of the data within the file
constexpr size_t kMaxDimensions = 32;

uint32_t LittleEndian(absl::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
  return value;
}

// The text after `'key':` in the header, a Python dict literal that NumPy always writes alike.
std::optional<absl::string_view> ValueOf(absl::string_view header, absl::string_view key) {
  const size_t place = header.find(absl::StrCat("'", key, "':"));
  if (place == absl::string_view::npos) return std::nullopt;
  return absl::StripLeadingAsciiWhitespace(header.substr(place + key.size() + 3));
}

std::optional<std::vector<int64_t>> ParseShape(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "(")) return std::nullopt;
  const size_t end = text.find(')');
  if (end == absl::string_view::npos) return std::nullopt;
  std::vector<int64_t> shape;
  for (absl::string_view part : absl::StrSplit(text.substr(0, end), ',', absl::SkipWhitespace())) {
    int64_t length = 0;
    if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(part), &length) || length < 0) return std::nullopt;
    shape.push_back(length);
  }
  if (shape.size() > kMaxDimensions) return std::nullopt;
  return shape;
}

// Bytes of an array; nothing where that overflows.
std::optional<int64_t> DataBytes(const std::vector<int64_t>& shape, int64_t element_bytes) {
  int64_t bytes = element_bytes;
  for (const int64_t length : shape) {
    if (__builtin_mul_overflow(bytes, length, &bytes)) return std::nullopt;
  }
  return bytes;
}

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace

int64_t NpyArray::elements() const {
  int64_t product = 1;
  for (const int64_t length : shape) product *= length;
  return product;
}

int64_t NpyElementBytes(absl::string_view descr) {
  if (descr.size() != 3 || !absl::StrContains("<=|", descr.substr(0, 1))) return 0;
  const absl::string_view type = descr.substr(1);
  if (type == "f4") return 4;
  if (type == "f2" || type == "u2" || type == "V2") return 2;
  return 0;
}

absl::StatusOr<NpyArray> ParseNpy(absl::string_view bytes) {
  if (bytes.size() < kPrefixBytes || !absl::StartsWith(bytes, kMagic)) {
    return absl::InvalidArgumentError("not a .npy file");
  }
  const int version = static_cast<uint8_t>(bytes[6]);
  if (version < 1 || version > 3) {
    return absl::InvalidArgumentError(absl::StrCat("version ", version, " of the .npy format, expected 1 to 3"));
  }
  const size_t length_bytes = version == 1 ? 2 : 4;
  if (bytes.size() < kPrefixBytes + length_bytes) return absl::InvalidArgumentError("the file ends within its header");
  const size_t header_bytes = LittleEndian(bytes.substr(kPrefixBytes, length_bytes));
  absl::string_view rest = bytes.substr(kPrefixBytes + length_bytes);
  if (rest.size() < header_bytes) return absl::InvalidArgumentError("the file ends within its header");
  const absl::string_view header = rest.substr(0, header_bytes);
  rest.remove_prefix(header_bytes);

  NpyArray array;
  std::optional<absl::string_view> descr = ValueOf(header, "descr");
  if (!descr.has_value() || !absl::ConsumePrefix(&*descr, "'")) {
    return absl::InvalidArgumentError("the header names no simple element type");
  }
  array.descr = std::string(descr->substr(0, descr->find('\'')));
  const int64_t element_bytes = NpyElementBytes(array.descr);
  if (element_bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat("elements of type '", array.descr,
                                                   "', expected little-endian float32 ('<f4'), float16 ('<f2') or "
                                                   "bfloat16 ('<V2', '|V2' or '<u2')"));
  }
  const std::optional<absl::string_view> order = ValueOf(header, "fortran_order");
  if (!order.has_value() || !absl::StartsWith(*order, "False")) {
    return absl::InvalidArgumentError("an array in Fortran order, expected C order");
  }
  const std::optional<absl::string_view> shape_text = ValueOf(header, "shape");
  std::optional<std::vector<int64_t>> shape;
  if (shape_text.has_value()) shape = ParseShape(*shape_text);
  if (!shape.has_value()) return absl::InvalidArgumentError("the header has no readable shape");
  const std::optional<int64_t> data_bytes = DataBytes(*shape, element_bytes);
  if (!data_bytes.has_value() || static_cast<uint64_t>(*data_bytes) != rest.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the file has ", rest.size(), " bytes of data, not what the shape (",
                                                   absl::StrJoin(*shape, ", "), ") of ", element_bytes,
                                                   "-byte elements takes"));
  }
  array.shape = *std::move(shape);
  const auto* const data = reinterpret_cast<const std::byte*>(rest.data());
  array.data.assign(data, data + rest.size());
  return array;
}

std::string FormatNpy(const NpyArray& array) {
  std::string header = absl::StrCat("{'descr': '", array.descr, "', 'fortran_order': False, 'shape': (",
                                    absl::StrJoin(array.shape, ", "), array.shape.size() == 1 ? ",), }" : "), }");
  const size_t unpadded = kPrefixBytes + 2 + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::string file = absl::StrCat(kMagic, absl::string_view("\x01\x00", 2));
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  if (!array.data.empty()) file.append(reinterpret_cast<const char*>(array.data.data()), array.data.size());
  return file;
}

absl::StatusOr<NpyArray> ReadNpy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  std::ostringstream bytes;
  bytes << file.rdbuf();  // which fails, where an iterator over a directory would throw
  absl::StatusOr<NpyArray> array = ParseNpy(std::move(bytes).str());
  if (!array.ok()) return InFile(path, array.status());
  return array;
}

absl::Status WriteNpy(const std::string& path, const NpyArray& array) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const std::string bytes = FormatNpy(array);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return absl::UnknownError(absl::StrCat(path, ": cannot be written: ", std::strerror(errno)));
  return absl::OkStatus();
}

}  // namespace tessera
