// Certificates made on the spot, for tests.
#ifndef TESSERA_SERVER_CREDENTIALS_TEST_CERTIFICATES_H_
#define TESSERA_SERVER_CREDENTIALS_TEST_CERTIFICATES_H_

#include <memory>
#include <string>

#include "absl/time/time.h"

namespace tessera {

// PEM texts.
struct TestIdentity {
  std::string certificate;
  std::string private_key;
};

// A certificate authority with a key of its own. Any failure ends the program.
class TestAuthority {
 public:
  // Valid from an hour ago for a day.
  explicit TestAuthority(const std::string& name);
  ~TestAuthority();

  // Its certificate.
  const std::string& certificate() const { return certificate_; }

  // A new key's certificate for 127.0.0.1 and localhost, good for servers and clients, valid at [begin, end).
  TestIdentity Issue(absl::Time begin, absl::Time end) const;
  // Valid now.
  TestIdentity Issue() const;

 private:
  struct Key;

  const std::unique_ptr<Key> key_;
  const std::string name_;
  const std::string certificate_;
};

// When the first certificate of a PEM text expires.
absl::Time ExpiryOf(const std::string& certificate);

}  // namespace tessera

#endif  // TESSERA_SERVER_CREDENTIALS_TEST_CERTIFICATES_H_
