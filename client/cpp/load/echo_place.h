// Where the echo of a run is: at the address given, or a server of this process.
#ifndef TESSERA_CLIENT_CPP_LOAD_ECHO_PLACE_H_
#define TESSERA_CLIENT_CPP_LOAD_ECHO_PLACE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/cpp/load/echo_server.h"
#include "client/cpp/load/echo_target.h"
#include "client/cpp/load/load_config.h"

namespace tessera::load {

struct EchoPlace {
  std::unique_ptr<EchoServer> own_server;  // null where it is elsewhere
  EchoOptions options;
};

// Starts a server where the config names none.
absl::StatusOr<EchoPlace> PlaceEcho(const LoadConfig& config);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_ECHO_PLACE_H_
