#include "server/device/fault_script.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tessera {
namespace {

std::optional<FaultRule::Point> ParsePoint(absl::string_view text) {
  if (text == "stage") return FaultRule::Point::kStage;
  if (text == "copy_in") return FaultRule::Point::kCopyIn;
  if (text == "run") return FaultRule::Point::kRun;
  if (text == "copy_out") return FaultRule::Point::kCopyOut;
  return std::nullopt;
}

std::optional<absl::StatusCode> ParseCode(absl::string_view text) {
  constexpr int kLastCode = static_cast<int>(absl::StatusCode::kUnauthenticated);
  for (int code = 1; code <= kLastCode; ++code) {
    const auto candidate = static_cast<absl::StatusCode>(code);
    if (text == absl::AsciiStrToLower(absl::StatusCodeToString(candidate))) return candidate;
  }
  return std::nullopt;
}

bool ParseOrdinals(absl::string_view text, FaultRule* rule) {
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  if (text == "*") {
    rule->last = kLast;
    return true;
  }
  const bool open = absl::ConsumeSuffix(&text, "+");
  const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(text, absl::MaxSplits('-', 1));
  if (!absl::SimpleAtoi(ends.first, &rule->first) || rule->first < 1) return false;
  rule->last = open ? kLast : rule->first;
  if (ends.second.empty()) return true;
  return !open && absl::SimpleAtoi(ends.second, &rule->last) && rule->last >= rule->first;
}

bool ParseAction(absl::string_view text, FaultRule* rule) {
  if (const std::optional<absl::StatusCode> code = ParseCode(text); code.has_value()) {
    rule->action = FaultRule::Action::kFail;
    rule->code = *code;
    return true;
  }
  if (rule->point == FaultRule::Point::kStage) return false;
  if (text == "sticky") {
    rule->action = FaultRule::Action::kSticky;
    return true;
  }
  if (text == "hang") {
    rule->action = FaultRule::Action::kHang;
    return true;
  }
  rule->action = FaultRule::Action::kDelay;
  return absl::ConsumePrefix(&text, "delay:") && absl::ParseDuration(text, &rule->delay) &&
         rule->delay >= absl::ZeroDuration();
}

std::optional<FaultRule> ParseRule(absl::string_view text) {
  FaultRule rule;
  if (const size_t slash = text.find('/'); slash != absl::string_view::npos) {
    if (!absl::SimpleAtoi(text.substr(0, slash), &rule.device) || rule.device < 0) return std::nullopt;
    text.remove_prefix(slash + 1);
  }
  const std::pair<absl::string_view, absl::string_view> sides = absl::StrSplit(text, absl::MaxSplits('=', 1));
  const std::pair<absl::string_view, absl::string_view> where = absl::StrSplit(sides.first, absl::MaxSplits('@', 1));
  const std::optional<FaultRule::Point> point = ParsePoint(where.first);
  if (!point.has_value()) return std::nullopt;
  rule.point = *point;
  if (!ParseOrdinals(where.second, &rule) || !ParseAction(sides.second, &rule)) return std::nullopt;
  return rule;
}

}  // namespace

absl::StatusOr<FaultScript> ParseFaultScript(absl::string_view text) {
  FaultScript script;
  for (absl::string_view piece : absl::StrSplit(text, ';')) {
    piece = absl::StripAsciiWhitespace(piece);
    if (piece.empty()) continue;
    const std::optional<FaultRule> rule = ParseRule(piece);
    if (!rule.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("fault script: \"", piece, "\" is not [DEVICE/]POINT@WHICH=ACTION"));
    }
    script.rules.push_back(*rule);
  }
  return script;
}

FaultScript ScriptOf(const FaultScript& script, int device) {
  FaultScript own;
  for (const FaultRule& rule : script.rules) {
    const bool strikes = rule.point == FaultRule::Point::kStage
                             ? device == 0
                             : rule.device == device || rule.device == FaultRule::kAnyDevice;
    if (strikes) own.rules.push_back(rule);
  }
  return own;
}

}  // namespace tessera
