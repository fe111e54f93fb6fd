// What a server shows of itself in a TLS handshake, and whom it believes: judged before it is used.
#ifndef TESSERA_SERVER_CREDENTIALS_TLS_MATERIAL_H_
#define TESSERA_SERVER_CREDENTIALS_TLS_MATERIAL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tessera {

// PEM texts that have been found to be usable together.
struct TlsMaterial {
  std::string identity;   // the server's certificate, the rest of its chain, and the private key
  std::string client_ca;  // one certificate or several; empty: clients show none
  absl::Time expiry;      // of the certificate in the chain that expires first
};

// INVALID_ARGUMENT where the texts do not parse, the key has a passphrase or belongs to another certificate, a
// certificate of the chain is not valid at `now`, or none of the client CAs is. The message says which by the flag's
// name and quotes nothing of the texts. A null `client_ca` asks for no certificates of clients.
absl::StatusOr<TlsMaterial> JudgeTlsMaterial(const std::string& certificate, const std::string& private_key,
                                             const std::string* client_ca, absl::Time now);

}  // namespace tessera

#endif  // TESSERA_SERVER_CREDENTIALS_TLS_MATERIAL_H_
