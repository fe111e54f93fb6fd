#include "client/cpp/load/echo_place.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::load {

absl::StatusOr<EchoPlace> PlaceEcho(const LoadConfig& config) {
  EchoPlace place;
  place.options.address = config.echo_address;
  place.options.connections = config.server.connections;
  place.options.stream = config.server.transport != Transport::kUnary;
  place.options.timeout = config.server.timeout;
  if (!place.options.address.empty()) return place;
  absl::StatusOr<std::unique_ptr<EchoServer>> started = EchoServer::Start("127.0.0.1:0");
  if (!started.ok()) return started.status();
  place.own_server = *std::move(started);
  place.options.address = absl::StrCat("127.0.0.1:", place.own_server->port());
  return place;
}

}  // namespace tessera::load
