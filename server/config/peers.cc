#include "server/config/peers.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tessera {
namespace {

// Adds what one pattern stands for.
absl::Status Expand(absl::string_view pattern, std::vector<std::string>* peers) {
  const std::pair<absl::string_view, absl::string_view> opened = absl::StrSplit(pattern, absl::MaxSplits('{', 1));
  if (opened.first.size() == pattern.size()) {
    peers->emplace_back(pattern);
    return absl::OkStatus();
  }
  const std::pair<absl::string_view, absl::string_view> closed = absl::StrSplit(opened.second, absl::MaxSplits('}', 1));
  const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(closed.first, absl::MaxSplits("..", 1));
  const auto padded = [](absl::string_view number) { return number.size() > 1 && number.front() == '0'; };
  uint32_t first = 0, last = 0;
  if (padded(ends.first) || padded(ends.second) || closed.first.size() == opened.second.size() ||
      closed.second.find('{') != absl::string_view::npos || !absl::SimpleAtoi(ends.first, &first) ||
      !absl::SimpleAtoi(ends.second, &last) || first > last) {
    return absl::InvalidArgumentError(absl::StrCat("peers: ", pattern, " has a brace that is no range such as {0..9}"));
  }
  for (uint64_t number = first; number <= last && peers->size() <= kMostPeers; ++number) {
    peers->push_back(absl::StrCat(opened.first, number, closed.second));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParsePeers(absl::string_view text) {
  std::vector<std::string> peers;
  if (text.empty()) return peers;
  for (const absl::string_view pattern : absl::StrSplit(text, ',')) {
    if (absl::Status status = Expand(absl::StripAsciiWhitespace(pattern), &peers); !status.ok()) return status;
    if (peers.size() > kMostPeers) {
      return absl::InvalidArgumentError(absl::StrCat("peers: more than the limit of ", kMostPeers));
    }
  }
  return peers;
}

}  // namespace tessera
