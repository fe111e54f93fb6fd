// Which tenant a bearer token stands for.
#ifndef TESSERA_SERVER_CREDENTIALS_TOKEN_TABLE_H_
#define TESSERA_SERVER_CREDENTIALS_TOKEN_TABLE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace tessera {

// SHA-256 of a token. Tokens are looked up by it, and only digests are kept, so that neither the file nor the time that
// a lookup takes tells a token.
using TokenDigest = std::array<uint8_t, 32>;

TokenDigest DigestOf(absl::string_view token);

// Immutable once parsed.
class TokenTable {
 public:
  // Lines `TENANT DIGEST`, the digest in hexadecimal digits; blank ones and such as begin with '#' say nothing. A
  // tenant may have several tokens. INVALID_ARGUMENT, naming the line and quoting nothing of it, where a line is
  // something else, a tenant has more than `max_tenant_bytes` bytes or others than printable ASCII, or a digest comes
  // twice; and where there is no token at all.
  static absl::StatusOr<TokenTable> Parse(absl::string_view text, size_t max_tenant_bytes);

  // Null for a token that is not known.
  const std::string* Find(absl::string_view token) const;
  size_t size() const { return tenants_.size(); }

 private:
  absl::flat_hash_map<TokenDigest, std::string> tenants_;
};

// The table in force. Thread-safe.
class Tokens {
 public:
  void Replace(TokenTable table);

  // Another number for each table: whoever keeps what a token stood for asks again when it has changed.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

  // Nothing for a token that is not known, and before the first table.
  std::optional<std::string> TenantOf(absl::string_view token) const;

 private:
  mutable absl::Mutex mutex_;
  std::shared_ptr<const TokenTable> table_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> version_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_CREDENTIALS_TOKEN_TABLE_H_
