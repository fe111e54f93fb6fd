// The servers of a set as a flag spells them.
#ifndef TESSERA_SERVER_CONFIG_PEERS_H_
#define TESSERA_SERVER_CONFIG_PEERS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera {

inline constexpr size_t kMostPeers = 4096;

// Addresses separated by commas. One "{A..B}" within each, of two numbers, stands for every number from A to B, as in
// "kv-{0..9}.kv.svc:7171". Whether they are addresses is for ValidateConfig. INVALID_ARGUMENT for braces that are no
// such range, and for more than kMostPeers; empty text names none.
absl::StatusOr<std::vector<std::string>> ParsePeers(absl::string_view text);

}  // namespace tessera

#endif  // TESSERA_SERVER_CONFIG_PEERS_H_
