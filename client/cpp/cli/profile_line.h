// What a server's sequences may be like, as `tessera info` prints it.
#ifndef TESSERA_CLIENT_CPP_CLI_PROFILE_LINE_H_
#define TESSERA_CLIENT_CPP_CLI_PROFILE_LINE_H_

#include <string>

#include "tessera/v1/sequence.pb.h"

namespace tessera {

// Without the end of the line.
std::string FormatProfile(const v1::CacheProfile& profile);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_CLI_PROFILE_LINE_H_
