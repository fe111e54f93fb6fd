// The command line of tessera-load.
#ifndef TESSERA_CLIENT_CPP_LOAD_LOAD_FLAGS_H_
#define TESSERA_CLIENT_CPP_LOAD_LOAD_FLAGS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/load/load_config.h"

namespace tessera::load {

// What the parsed flags ask for. INVALID_ARGUMENT naming the flag that is wrong.
absl::StatusOr<LoadConfig> ConfigFromFlags();

// Whether the program's own flags are defined in `file`, rather than some library's.
bool IsOfThisProgram(absl::string_view file);

// The address of --serve_echo; empty where the program is to load and not to serve.
std::string ServeEchoAddress();

// Name and value of every flag of the program's own, for reports; --shape once for each shape.
std::vector<std::pair<std::string, std::string>> FlagValues();

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_LOAD_FLAGS_H_
