// Where one server is to be found.
#ifndef TESSERA_CLIENT_CPP_TESSERA_ENDPOINT_H_
#define TESSERA_CLIENT_CPP_TESSERA_ENDPOINT_H_

#include <string>

namespace tessera {

struct Endpoint {
  std::string target;     // a gRPC name: "host:port", "ipv4:10.0.0.7:7171", "unix:path"
  std::string authority;  // the name that the server's certificate must bear; empty: the target's

  friend bool operator==(const Endpoint& a, const Endpoint& b) {
    return a.target == b.target && a.authority == b.authority;
  }
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_ENDPOINT_H_
