// A bare HTTP client, for reading /metrics.
#ifndef TESSERA_TESTS_SERVER_HTTP_GET_H_
#define TESSERA_TESTS_SERVER_HTTP_GET_H_

#include <string>

namespace tessera::testing {

// The whole answer of 127.0.0.1:`port`, head and body; empty where there is none.
std::string HttpGet(int port, const std::string& path);

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_HTTP_GET_H_
