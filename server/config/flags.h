// The command line of tessera-server.
#ifndef TESSERA_SERVER_CONFIG_FLAGS_H_
#define TESSERA_SERVER_CONFIG_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config/config.h"

namespace tessera {

struct CommandLine {
  ServerConfig config;
  std::string log_level;
};

// What --help and --version say. Call it once.
void DescribeProgram();

// Reads flags; ends the process on --help, --version and unknown flags. Flags may be written with dashes or underscores
// between words; --flagfile=FILE reads more of them, as flag_files.h says. INVALID_ARGUMENT where a value makes no
// sense, a file cannot be read, or a word is no flag.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, char** argv);

// Replaces the dashes within the names of long flags: "--drain-grace=5s" becomes "--drain_grace=5s". Stops at "--".
std::vector<std::string> WithUnderscores(const std::vector<std::string>& arguments);

}  // namespace tessera

#endif  // TESSERA_SERVER_CONFIG_FLAGS_H_
