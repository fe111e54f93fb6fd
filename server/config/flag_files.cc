#include "server/config/flag_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace tessera {
namespace {

constexpr int kMostNested = 16;
constexpr size_t kMostBytes = size_t{1} << 20;

absl::Status Refusal(absl::string_view file, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("flagfile ", file, ": ", why));
}

absl::StatusOr<std::string> Read(const std::string& file) {
  const std::unique_ptr<FILE, int (*)(FILE*)> stream(std::fopen(file.c_str(), "r"), &std::fclose);
  if (stream == nullptr) return Refusal(file, std::strerror(errno));
  std::string text(kMostBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), stream.get()));
  if (std::ferror(stream.get()) != 0) return Refusal(file, std::strerror(errno));
  if (text.size() > kMostBytes) return Refusal(file, absl::StrCat("larger than ", kMostBytes, " bytes"));
  return text;
}

// The flags in `file`.
absl::StatusOr<std::vector<std::string>> FlagsOf(const std::string& file) {
  const absl::StatusOr<std::string> text = Read(file);
  if (!text.ok()) return text.status();
  std::vector<std::string> flags;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    if (line.front() != '-' || line == "-" || line == "--") {
      return Refusal(file, absl::StrCat("line ", number, " is no flag: ", line));
    }
    flags.emplace_back(line);
  }
  return flags;
}

struct Flag {
  absl::string_view name;
  absl::string_view value;
  bool has_value = false;  // in the same word
};

// REQUIRES: `word` begins with a dash.
Flag Take(absl::string_view word) {
  word.remove_prefix(absl::StartsWith(word, "--") ? 2 : 1);
  const size_t equals = word.find('=');
  if (equals == absl::string_view::npos) return {word, {}, false};
  return {word.substr(0, equals), word.substr(equals + 1), true};
}

bool NamesFlagFile(absl::string_view flags) {
  const std::vector<absl::string_view> names = absl::StrSplit(flags, ',');
  return std::find(names.begin(), names.end(), "flagfile") != names.end();
}

absl::Status Append(const std::vector<std::string>& words, int nested, std::vector<std::string>* expanded);

absl::Status AppendFiles(absl::string_view files, int nested, std::vector<std::string>* expanded) {
  for (const std::string& file : std::vector<std::string>(absl::StrSplit(files, ','))) {
    if (nested == kMostNested) {
      return Refusal(file, absl::StrCat("files nest more than ", kMostNested, " deep; does one name itself?"));
    }
    const absl::StatusOr<std::vector<std::string>> flags = FlagsOf(file);
    if (!flags.ok()) return flags.status();
    if (absl::Status status = Append(*flags, nested + 1, expanded); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Append(const std::vector<std::string>& words, int nested, std::vector<std::string>* expanded) {
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (*word == "--") {
      expanded->insert(expanded->end(), word, words.end());
      return absl::OkStatus();
    }
    Flag flag;
    if (absl::StartsWith(*word, "-")) flag = Take(*word);
    const bool from_environment = flag.name == "fromenv" || flag.name == "tryfromenv";
    if (flag.name != "flagfile" && !from_environment) {
      expanded->push_back(*word);
      continue;
    }
    const auto first = word;
    if (!flag.has_value) {
      if (++word == words.end()) return absl::InvalidArgumentError(absl::StrCat(flag.name, ": has no value"));
      flag.value = *word;
    }
    if (from_environment) {
      if (NamesFlagFile(flag.value)) {
        return absl::InvalidArgumentError(absl::StrCat(flag.name, ": flagfile cannot come from the environment"));
      }
      expanded->insert(expanded->end(), first, word + 1);
    } else if (absl::Status status = AppendFiles(flag.value, nested, expanded); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandFlagFiles(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return arguments;
  std::vector<std::string> expanded = {arguments.front()};
  const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  if (absl::Status status = Append(words, 0, &expanded); !status.ok()) return status;
  return expanded;
}

}  // namespace tessera
