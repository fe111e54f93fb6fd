#include "server/credentials/token_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "openssl/sha.h"

namespace tessera {
namespace {

absl::Status BadLine(size_t line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("token_file: line ", line, ": ", what));
}

std::optional<TokenDigest> ParseDigest(absl::string_view digits) {
  if (digits.size() != 2 * TokenDigest().size()) return std::nullopt;
  if (!std::all_of(digits.begin(), digits.end(), absl::ascii_isxdigit)) return std::nullopt;
  const std::string bytes = absl::HexStringToBytes(digits);
  TokenDigest digest;
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

}  // namespace

TokenDigest DigestOf(absl::string_view token) {
  TokenDigest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

absl::StatusOr<TokenTable> TokenTable::Parse(absl::string_view text, size_t max_tenant_bytes) {
  TokenTable table;
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty() || words.front().front() == '#') continue;
    if (words.size() != 2) return BadLine(number, "not a tenant and a digest");
    if (words[0].size() > max_tenant_bytes || !std::all_of(words[0].begin(), words[0].end(), absl::ascii_isgraph)) {
      return BadLine(number, absl::StrCat("the tenant is not 1 to ", max_tenant_bytes, " printable ASCII characters"));
    }
    const std::optional<TokenDigest> digest = ParseDigest(words[1]);
    if (!digest.has_value()) return BadLine(number, "the digest is not 64 hexadecimal digits, as SHA-256 has");
    if (!table.tenants_.emplace(*digest, std::string(words[0])).second) {
      return BadLine(number, "the digest is that of an earlier line");
    }
  }
  if (table.tenants_.empty()) return absl::InvalidArgumentError("token_file: names no token, so nobody could call");
  return table;
}

const std::string* TokenTable::Find(absl::string_view token) const {
  const auto found = tenants_.find(DigestOf(token));
  return found == tenants_.end() ? nullptr : &found->second;
}

void Tokens::Replace(TokenTable table) {
  auto next = std::make_shared<const TokenTable>(std::move(table));
  absl::MutexLock lock(&mutex_);
  table_.swap(next);
  version_.fetch_add(1, std::memory_order_release);
}

std::optional<std::string> Tokens::TenantOf(absl::string_view token) const {
  std::shared_ptr<const TokenTable> table;
  {
    absl::MutexLock lock(&mutex_);
    table = table_;
  }
  if (table == nullptr) return std::nullopt;
  const std::string* const tenant = table->Find(token);
  return tenant == nullptr ? std::nullopt : std::optional<std::string>(*tenant);
}

}  // namespace tessera
