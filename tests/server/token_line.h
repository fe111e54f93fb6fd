// Lines of a file of tokens.
#ifndef TESSERA_TESTS_SERVER_TOKEN_LINE_H_
#define TESSERA_TESTS_SERVER_TOKEN_LINE_H_

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/credentials/token_table.h"

namespace tessera::testing {

inline std::string TokenLine(const std::string& tenant, const std::string& token) {
  const TokenDigest digest = DigestOf(token);
  return absl::StrCat(tenant, " ",
                      absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()}), "\n");
}

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_TOKEN_LINE_H_
