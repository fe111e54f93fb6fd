#include "client/cpp/load/decode/decode_shape.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tessera::load {
namespace {

constexpr int64_t kMaxLength = int64_t{1} << 24;

absl::Status BadValue(absl::string_view key, absl::string_view value, absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat("decode: ", key, "=", value, ": must be ", wanted));
}

absl::Status ParseInteger(absl::string_view key, absl::string_view value, int64_t most, int64_t* out) {
  if (absl::SimpleAtoi(value, out) && *out >= 1 && *out <= most) return absl::OkStatus();
  return BadValue(key, value, absl::StrCat("an integer from 1 to ", most));
}

absl::Status ParseMix(absl::string_view key, absl::string_view value, int64_t least, LengthMix* out) {
  absl::StatusOr<LengthMix> mix = ParseLengthMix(key, value, least);
  if (!mix.ok()) return mix.status();
  *out = *std::move(mix);
  return absl::OkStatus();
}

absl::Status ParseField(absl::string_view key, absl::string_view value, DecodeShape* shape) {
  if (key == "profile") {
    shape->profile = std::string(value);
    return absl::OkStatus();
  }
  if (key == "heads") return ParseInteger(key, value, 4096, &shape->q_heads);
  if (key == "layers") return ParseInteger(key, value, 4096, &shape->layers);
  if (key == "prefill") return ParseMix(key, value, 0, &shape->prefill);
  if (key == "steps") return ParseMix(key, value, 1, &shape->steps);
  if (key == "tokens") return ParseInteger(key, value, 65536, &shape->tokens);
  if (key == "chunk") return ParseInteger(key, value, 65536, &shape->chunk);
  if (key == "group") return ParseInteger(key, value, 65536, &shape->group);
  return absl::InvalidArgumentError(absl::StrCat("decode: no such key: ", key));
}

}  // namespace

int64_t LengthMix::Draw(std::mt19937_64& random) const {
  if (kind == Kind::kList) return values[std::uniform_int_distribution<size_t>(0, values.size() - 1)(random)];
  if (kind == Kind::kUniform) return std::uniform_int_distribution<int64_t>(values[0], values[1])(random);
  // Up to the upper end and one, so that it is as likely as its neighbours.
  const double low = std::log(static_cast<double>(values[0]));
  const double high = std::log(static_cast<double>(values[1] + 1));
  const double drawn = std::exp(std::uniform_real_distribution<double>(low, high)(random));
  return std::clamp(static_cast<int64_t>(drawn), values[0], values[1]);
}

int64_t LengthMix::longest() const { return *std::max_element(values.begin(), values.end()); }

absl::StatusOr<LengthMix> ParseLengthMix(absl::string_view key, absl::string_view text, int64_t least) {
  LengthMix mix;
  std::vector<absl::string_view> parts;
  if (absl::StrContains(text, "..")) {
    mix.kind = LengthMix::Kind::kUniform;
    parts = absl::StrSplit(text, absl::MaxSplits("..", 1));
  } else if (absl::StrContains(text, "~")) {
    mix.kind = LengthMix::Kind::kSkewed;
    least = std::max<int64_t>(least, 1);  // 0 has no logarithm
    parts = absl::StrSplit(text, absl::MaxSplits('~', 1));
  } else {
    parts = absl::StrSplit(text, '/');
  }
  mix.values.clear();
  for (const absl::string_view part : parts) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(part, &value) || value < least || value > kMaxLength) {
      return BadValue(
          key, text,
          absl::StrCat("lengths from ", least, " to ", kMaxLength, ", such as 512, 128/512, 100..6000 or 100~60000"));
    }
    mix.values.push_back(value);
  }
  if (mix.kind != LengthMix::Kind::kList && mix.values[0] > mix.values[1]) {
    return BadValue(key, text, "a range from the shorter to the longer");
  }
  return mix;
}

int64_t DecodeShape::most_tokens() const { return std::max(tokens, std::min(chunk, prefill.longest())); }

absl::StatusOr<DecodeShape> ParseDecodeShape(absl::string_view text) {
  DecodeShape shape;
  for (const absl::string_view field : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(field, absl::MaxSplits('=', 1));
    const absl::string_view key = absl::StripAsciiWhitespace(parts.first);
    if (absl::Status s = ParseField(key, absl::StripAsciiWhitespace(parts.second), &shape); !s.ok()) return s;
  }
  if (shape.profile.empty()) return absl::InvalidArgumentError("decode: profile: must be given");
  return shape;
}

}  // namespace tessera::load
