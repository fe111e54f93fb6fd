// A bare connection to a server: no gRPC on this end.
#ifndef TESSERA_TESTS_SERVER_CONNECTION_H_
#define TESSERA_TESTS_SERVER_CONNECTION_H_

#include <string>

namespace tessera::testing {

// To `port` of 127.0.0.1. Closed by the destructor.
class Connection {
 public:
  explicit Connection(int port);
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) = delete;
  ~Connection();

  // Whether anybody listens there.
  static bool Possible(int port);

  void Send(const std::string& bytes) const;

  // Reads until the other end closes, or something else comes. gRPC says something as soon as it has the connection.
  // Returns whether it was closed without a word.
  bool ClosedAtOnce() const;

 private:
  int fd_;
};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_CONNECTION_H_
