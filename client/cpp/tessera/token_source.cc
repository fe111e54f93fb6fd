#include "client/cpp/tessera/token_source.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/tessera/small_file.h"

namespace tessera {
namespace {

absl::StatusOr<std::string> HeaderOf(absl::string_view text) {
  const absl::string_view token = absl::StripAsciiWhitespace(text);
  if (token.empty()) return absl::InvalidArgumentError("the token is empty");
  if (!std::all_of(token.begin(), token.end(), absl::ascii_isgraph)) {
    return absl::InvalidArgumentError("the token has other characters than printable ASCII");
  }
  return absl::StrCat("Bearer ", token);
}

absl::StatusOr<std::string> HeaderOfFile(const std::string& path) {
  const absl::StatusOr<std::string> contents = ReadSmallFile(path);
  if (!contents.ok()) return contents.status();
  absl::StatusOr<std::string> header = HeaderOf(*contents);
  if (!header.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ": ", header.status().message()));
  return header;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenSource>> TokenSource::Fixed(absl::string_view token) {
  absl::StatusOr<std::string> header = HeaderOf(token);
  if (!header.ok()) return header.status();
  return std::unique_ptr<TokenSource>(new TokenSource("", *std::move(header)));
}

absl::StatusOr<std::unique_ptr<TokenSource>> TokenSource::OfFile(const std::string& path) {
  absl::StatusOr<std::string> header = HeaderOfFile(path);
  if (!header.ok()) return header.status();
  return std::unique_ptr<TokenSource>(new TokenSource(path, *std::move(header)));
}

TokenSource::TokenSource(std::string path, std::string header)
    : path_(std::move(path)), header_(std::move(header)), next_look_(absl::Now() + kPeriod) {}

grpc::Status TokenSource::GetMetadata(grpc::string_ref /*service_url*/, grpc::string_ref /*method*/,
                                      const grpc::AuthContext& /*context*/,
                                      std::multimap<std::string, std::string>* metadata) {
  metadata->emplace("authorization", Header());
  return grpc::Status::OK;
}

std::string TokenSource::Header() {
  absl::MutexLock lock(&mutex_);
  if (path_.empty()) return header_;
  const absl::Time now = absl::Now();
  if (now >= next_look_) {
    next_look_ = now + kPeriod;
    if (absl::StatusOr<std::string> header = HeaderOfFile(path_); header.ok()) header_ = *std::move(header);
  }
  return header_;
}

}  // namespace tessera
