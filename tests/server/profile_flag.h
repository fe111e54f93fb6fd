// A cache profile as a flag of tessera-server.
#ifndef TESSERA_TESTS_SERVER_PROFILE_FLAG_H_
#define TESSERA_TESTS_SERVER_PROFILE_FLAG_H_

#include <string>

#include "server/request/cache_profile.h"

namespace tessera::testing {

// REQUIRES: no scales.
std::string ProfileFlag(const CacheProfile& profile);

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_PROFILE_FLAG_H_
