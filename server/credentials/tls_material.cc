#include "server/credentials/tls_material.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "openssl/asn1.h"
#include "openssl/bio.h"
#include "openssl/err.h"
#include "openssl/evp.h"
#include "openssl/pem.h"
#include "openssl/x509.h"

namespace tessera {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Bio = std::unique_ptr<BIO, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using Key = std::unique_ptr<EVP_PKEY, Free>;

Bio Reader(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

absl::Status Bad(absl::string_view flag, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": ", what));
}

// OpenSSL would ask for a passphrase on the terminal.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*unused*/) { return -1; }

// All certificates of a PEM text, of which there is at least one. Other blocks are passed over.
absl::StatusOr<std::vector<Certificate>> ParseCertificates(absl::string_view flag, const std::string& text) {
  const Bio reader = Reader(text);
  std::vector<Certificate> certificates;
  ERR_clear_error();
  while (X509* certificate = PEM_read_bio_X509(reader.get(), nullptr, &NoPassphrase, nullptr)) {
    certificates.emplace_back(certificate);
  }
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  // The end of the text is an error, too, but another one.
  if (ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE) {
    return Bad(flag, absl::StrCat("certificate ", certificates.size() + 1, " of the file is malformed"));
  }
  if (certificates.empty()) return Bad(flag, "holds no certificate in PEM");
  return certificates;
}

absl::StatusOr<Key> ParseKey(const std::string& text) {
  Key key(PEM_read_bio_PrivateKey(Reader(text).get(), nullptr, &NoPassphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr) return Bad("tls_private_key", "holds no private key in PEM without a passphrase");
  return key;
}

absl::StatusOr<absl::Time> ToTime(absl::string_view flag, const ASN1_TIME* time) {
  std::tm utc;
  if (ASN1_TIME_to_tm(time, &utc) != 1) return Bad(flag, "a certificate's validity is malformed");
  return absl::FromTM(utc, absl::UTCTimeZone());
}

struct Validity {
  absl::Time begin;
  absl::Time end;

  bool Contains(absl::Time time) const { return begin <= time && time < end; }
};

absl::StatusOr<Validity> ValidityOf(absl::string_view flag, const X509& certificate) {
  const absl::StatusOr<absl::Time> begin = ToTime(flag, X509_get0_notBefore(&certificate));
  if (!begin.ok()) return begin.status();
  const absl::StatusOr<absl::Time> end = ToTime(flag, X509_get0_notAfter(&certificate));
  if (!end.ok()) return end.status();
  return Validity{*begin, *end};
}

// The first expiry of a chain whose certificates are all valid.
absl::StatusOr<absl::Time> ExpiryOf(const std::vector<Certificate>& chain, absl::Time now) {
  absl::Time expiry = absl::InfiniteFuture();
  for (const Certificate& certificate : chain) {
    const absl::StatusOr<Validity> validity = ValidityOf("tls_certificate", *certificate);
    if (!validity.ok()) return validity.status();
    if (now >= validity->end)
      return Bad("tls_certificate", absl::StrCat("expired at ", absl::FormatTime(validity->end)));
    if (now < validity->begin) {
      return Bad("tls_certificate", absl::StrCat("not valid before ", absl::FormatTime(validity->begin)));
    }
    expiry = std::min(expiry, validity->end);
  }
  return expiry;
}

absl::Status CheckClientCa(const std::string& text, absl::Time now) {
  const absl::StatusOr<std::vector<Certificate>> authorities = ParseCertificates("tls_client_ca", text);
  if (!authorities.ok()) return authorities.status();
  for (const Certificate& authority : *authorities) {
    const absl::StatusOr<Validity> validity = ValidityOf("tls_client_ca", *authority);
    if (!validity.ok()) return validity.status();
    if (validity->Contains(now)) return absl::OkStatus();
  }
  return Bad("tls_client_ca", "no certificate of the file is valid now");
}

// Nothing but the chain and the key, whatever else their files hold.
std::string Identity(const std::vector<Certificate>& chain, EVP_PKEY* key) {
  const Bio writer(BIO_new(BIO_s_mem()));
  for (const Certificate& certificate : chain) PEM_write_bio_X509(writer.get(), certificate.get());
  PEM_write_bio_PKCS8PrivateKey(writer.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  char* text;
  const long size = BIO_get_mem_data(writer.get(), &text);
  return std::string(text, static_cast<size_t>(size));
}

}  // namespace

absl::StatusOr<TlsMaterial> JudgeTlsMaterial(const std::string& certificate, const std::string& private_key,
                                             const std::string* client_ca, absl::Time now) {
  const absl::StatusOr<std::vector<Certificate>> chain = ParseCertificates("tls_certificate", certificate);
  if (!chain.ok()) return chain.status();
  const absl::StatusOr<Key> key = ParseKey(private_key);
  if (!key.ok()) return key.status();
  if (X509_check_private_key(chain->front().get(), key->get()) != 1) {
    ERR_clear_error();
    return Bad("tls_private_key", "belongs to another certificate than the first of tls_certificate");
  }
  const absl::StatusOr<absl::Time> expiry = ExpiryOf(*chain, now);
  if (!expiry.ok()) return expiry.status();
  if (client_ca != nullptr) {
    if (absl::Status status = CheckClientCa(*client_ca, now); !status.ok()) return status;
  }
  return TlsMaterial{Identity(*chain, key->get()), client_ca == nullptr ? "" : *client_ca, *expiry};
}

}  // namespace tessera
