#include "client/cpp/flags/command_line.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/flags/parse.h"
#include "client/cpp/flags/flag_names.h"

namespace tessera {
namespace {

bool parsing = false;
bool asked_for_help = false;

bool AsksForHelp(const char* argument) {
  return std::strncmp(argument, "--help", 6) == 0 || std::strncmp(argument, "-help", 5) == 0 ||
         std::strcmp(argument, "--version") == 0 || std::strcmp(argument, "-version") == 0;
}

// Abseil calls exit, and leaves no other place to choose its code.
void ExitWithOwnCode() {
  if (!parsing) return;
  std::fflush(nullptr);
  std::_Exit(asked_for_help ? EXIT_SUCCESS : kWrongUsage);
}

}  // namespace

std::vector<char*> ParseFlags(int argc, char** argv) {
  AcceptDashesInFlagNames(argc, argv);
  asked_for_help = std::any_of(argv + 1, argv + argc, AsksForHelp);
  std::atexit(ExitWithOwnCode);
  parsing = true;
  std::vector<char*> words = absl::ParseCommandLine(argc, argv);
  parsing = false;
  return words;
}

}  // namespace tessera
