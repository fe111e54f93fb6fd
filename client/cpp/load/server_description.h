// A server in a line, for people.
#ifndef TESSERA_CLIENT_CPP_LOAD_SERVER_DESCRIPTION_H_
#define TESSERA_CLIENT_CPP_LOAD_SERVER_DESCRIPTION_H_

#include <string>

#include "tessera/v1/server.pb.h"

namespace tessera::load {

// Version, backend and devices.
std::string DescribeServer(const v1::GetServerInfoResponse& info);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_SERVER_DESCRIPTION_H_
