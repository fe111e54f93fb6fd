// A program's command line, and how the program ends where there is something wrong with it.
#ifndef TESSERA_CLIENT_CPP_FLAGS_COMMAND_LINE_H_
#define TESSERA_CLIENT_CPP_FLAGS_COMMAND_LINE_H_

#include <vector>

namespace tessera {

// What a program exits with after a command line that it cannot follow.
inline constexpr int kWrongUsage = 2;

// absl::ParseCommandLine, where names of flags may have dashes (flag_names.h). It ends the program after a flag that
// asks for help or the version, here with 0, and after one that it does not know, with kWrongUsage; Abseil's own code
// would be 1. Called once, by main.
std::vector<char*> ParseFlags(int argc, char** argv);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_FLAGS_COMMAND_LINE_H_
