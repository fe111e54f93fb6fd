// Flags that are kept in files.
#ifndef TESSERA_SERVER_CONFIG_FLAG_FILES_H_
#define TESSERA_SERVER_CONFIG_FLAG_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera {

// `arguments`, a program's name and its words, with the flags of FILE in the place of every --flagfile=FILE or
// --flagfile FILE up to "--"; several files are separated by commas, and a file may name more files. A line is a flag,
// a comment that begins with '#', or blank; blanks around it do not count. Relative names are relative to the working
// directory.
//
// INVALID_ARGUMENT, naming the file, where one cannot be opened or read (a directory cannot), is larger than 1 MiB, has
// a line that is no flag, or where files nest more than 16 deep, as those do that name themselves. Likewise for
// --fromenv=flagfile, which would go around all this.
absl::StatusOr<std::vector<std::string>> ExpandFlagFiles(const std::vector<std::string>& arguments);

}  // namespace tessera

#endif  // TESSERA_SERVER_CONFIG_FLAG_FILES_H_
