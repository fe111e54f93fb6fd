#include "client/cpp/load/call_shape.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tessera::load {
namespace {

// Bounds what a mistyped spec can ask of this machine's memory; the server has limits of its own.
constexpr int64_t kMaxLength = int64_t{1} << 24;
constexpr int64_t kMaxPayloadBytes = int64_t{1} << 32;

absl::Status BadValue(absl::string_view key, absl::string_view value, absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat("shape: ", key, "=", value, ": must be ", wanted));
}

absl::Status ParseInteger(absl::string_view key, absl::string_view value, int64_t low, int64_t high, int64_t* out) {
  if (!absl::SimpleAtoi(value, out) || *out < low || *out > high) {
    return BadValue(key, value, absl::StrCat("an integer from ", low, " to ", high));
  }
  return absl::OkStatus();
}

absl::Status ParseMask(absl::string_view value, CallShape* shape) {
  const std::vector<absl::string_view> parts = absl::StrSplit(value, ':');
  if (value == "full") {
    shape->mask = v1::MASK_KIND_FULL;
  } else if (value == "causal") {
    shape->mask = v1::MASK_KIND_CAUSAL;
  } else if (parts.size() == 3 && parts[0] == "window") {
    shape->mask = v1::MASK_KIND_WINDOW;
    if (absl::Status s = ParseInteger("mask", parts[1], kUnboundedWindow, kMaxLength, &shape->window_left); !s.ok()) {
      return s;
    }
    return ParseInteger("mask", parts[2], kUnboundedWindow, kMaxLength, &shape->window_right);
  } else {
    return BadValue("mask", value, "full, causal or window:LEFT:RIGHT");
  }
  return absl::OkStatus();
}

// Sets what does not depend on other keys; kv, kv_heads and name are defaulted by the caller.
absl::Status ParseField(absl::string_view key, absl::string_view value, CallShape* shape) {
  if (key == "s") return ParseInteger(key, value, 0, kMaxLength, &shape->q_length);
  if (key == "kv") return ParseInteger(key, value, 0, kMaxLength, &shape->kv_length);
  if (key == "sequences") return ParseInteger(key, value, 1, 1 << 20, &shape->sequences);
  if (key == "heads") return ParseInteger(key, value, 1, 4096, &shape->q_heads);
  if (key == "kv_heads") return ParseInteger(key, value, 1, 4096, &shape->kv_heads);
  if (key == "d") return ParseInteger(key, value, 1, 4096, &shape->head_dim);
  if (key == "mask") return ParseMask(value, shape);
  if (key == "dtype") {
    if (value == "fp32") {
      shape->dtype = v1::DATA_TYPE_FLOAT32;
    } else if (value == "fp16") {
      shape->dtype = v1::DATA_TYPE_FLOAT16;
    } else if (value == "bf16") {
      shape->dtype = v1::DATA_TYPE_BFLOAT16;
    } else {
      return BadValue(key, value, "fp32, fp16 or bf16");
    }
    return absl::OkStatus();
  }
  if (key == "lse") {
    return absl::SimpleAtob(value, &shape->return_lse) ? absl::OkStatus() : BadValue(key, value, "0 or 1");
  }
  if (key == "weight") {
    return absl::SimpleAtod(value, &shape->weight) && shape->weight > 0 && shape->weight <= 1e9
               ? absl::OkStatus()
               : BadValue(key, value, "a number over 0");
  }
  if (key == "priority") {
    absl::StatusOr<v1::Priority> priority = ParsePriority(value);
    if (!priority.ok()) return priority.status();
    shape->priority = *priority;
    return absl::OkStatus();
  }
  if (key == "timeout") {
    return absl::ParseDuration(value, &shape->timeout) && shape->timeout > absl::ZeroDuration()
               ? absl::OkStatus()
               : BadValue(key, value, "a duration over 0, such as 50ms");
  }
  if (key == "tenant" || key == "name") {
    (key == "tenant" ? shape->tenant : shape->name) = std::string(value);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("shape: no such key: ", key));
}

std::string DefaultName(const CallShape& shape) {
  std::string name = absl::StrCat("s", shape.q_length);
  if (shape.kv_length != shape.q_length) absl::StrAppend(&name, " kv", shape.kv_length);
  if (shape.sequences > 1) absl::StrAppend(&name, " x", shape.sequences);
  absl::StrAppend(&name, " h", shape.q_heads);
  if (shape.kv_heads != shape.q_heads) absl::StrAppend(&name, "/", shape.kv_heads);
  absl::StrAppend(&name, " d", shape.head_dim, " ", ElementName(shape.dtype));
  if (shape.mask == v1::MASK_KIND_CAUSAL) absl::StrAppend(&name, " causal");
  if (shape.mask == v1::MASK_KIND_WINDOW) {
    absl::StrAppend(&name, " window:", shape.window_left, ":", shape.window_right);
  }
  if (shape.return_lse) absl::StrAppend(&name, " lse");
  return name;
}

}  // namespace

KeyRange VisibleKeys(const CallShape& shape, int64_t row) {
  const int64_t position = row + shape.kv_length - shape.q_length;
  int64_t begin = 0;
  int64_t end = shape.kv_length;
  if (shape.mask == v1::MASK_KIND_CAUSAL) end = position + 1;
  if (shape.mask == v1::MASK_KIND_WINDOW) {
    if (shape.window_left != kUnboundedWindow) begin = position - shape.window_left;
    if (shape.window_right != kUnboundedWindow) end = position + shape.window_right + 1;
  }
  begin = std::clamp<int64_t>(begin, 0, shape.kv_length);
  return {begin, std::clamp<int64_t>(end, begin, shape.kv_length)};
}

double CallShape::UsefulFlops() const {
  double pairs = 0;
  for (int64_t row = 0; row < q_length; ++row) {
    const KeyRange keys = VisibleKeys(*this, row);
    pairs += static_cast<double>(keys.end - keys.begin);
  }
  return 4.0 * static_cast<double>(head_dim * q_heads * sequences) * pairs;
}

absl::StatusOr<CallShape> ParseCallShape(absl::string_view text) {
  CallShape shape;
  bool kv_given = false;
  bool kv_heads_given = false;
  for (absl::string_view field : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(field, absl::MaxSplits('=', 1));
    const absl::string_view key = absl::StripAsciiWhitespace(parts.first);
    if (absl::Status s = ParseField(key, absl::StripAsciiWhitespace(parts.second), &shape); !s.ok()) return s;
    kv_given |= key == "kv";
    kv_heads_given |= key == "kv_heads";
  }
  if (!kv_given) shape.kv_length = shape.q_length;
  if (!kv_heads_given) shape.kv_heads = shape.q_heads;
  if (shape.q_heads % shape.kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape: heads=", shape.q_heads, ": must be a multiple of kv_heads=", shape.kv_heads));
  }
  const double elements = static_cast<double>(shape.sequences) * static_cast<double>(shape.head_dim) *
                          static_cast<double>(shape.q_length * shape.q_heads + 2 * shape.kv_length * shape.kv_heads);
  if (elements * static_cast<double>(ElementBytes(shape.dtype)) > static_cast<double>(kMaxPayloadBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape: ", text, ": q, k and v together exceed ", kMaxPayloadBytes, " bytes"));
  }
  if (shape.name.empty()) shape.name = DefaultName(shape);
  return shape;
}

absl::StatusOr<v1::Priority> ParsePriority(absl::string_view text) {
  if (text == "low") return v1::PRIORITY_LOW;
  if (text == "normal") return v1::PRIORITY_NORMAL;
  if (text == "high") return v1::PRIORITY_HIGH;
  return absl::InvalidArgumentError(absl::StrCat("priority: ", text, ": must be low, normal or high"));
}

}  // namespace tessera::load
