#include "server/credentials/test_certificates.h"

#include <atomic>
#include <ctime>

#include "absl/base/internal/raw_logging.h"
#include "absl/time/clock.h"
#include "openssl/asn1.h"
#include "openssl/bio.h"
#include "openssl/ec.h"
#include "openssl/evp.h"
#include "openssl/pem.h"
#include "openssl/x509.h"
#include "openssl/x509v3.h"

namespace tessera {
namespace {

template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Freer<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Name = std::unique_ptr<X509_NAME, Freer<X509_NAME_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freer<X509_EXTENSION_free>>;

void Check(bool good) { ABSL_RAW_CHECK(good, "OpenSSL failed"); }

PrivateKey NewKey() {
  PrivateKey key(EVP_EC_gen("P-256"));
  Check(key != nullptr);
  return key;
}

template <typename WriteFn>
std::string ToPem(const WriteFn& write) {
  const Bio bio(BIO_new(BIO_s_mem()));
  Check(write(bio.get()) == 1);
  char* text;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(size));
}

Name ToName(const std::string& common_name) {
  Name name(X509_NAME_new());
  Check(X509_NAME_add_entry_by_txt(name.get(), "CN", MBSTRING_ASC,
                                   reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1, 0) == 1);
  return name;
}

void AddExtension(X509* certificate, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value));
  Check(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1);
}

// A certificate of `key` without extensions, not signed yet.
Certificate NewCertificate(const std::string& subject, const std::string& issuer, EVP_PKEY* key, absl::Time begin,
                           absl::Time end) {
  static std::atomic<long> serial{1};
  Certificate certificate(X509_new());
  Check(X509_set_version(certificate.get(), 2) == 1);
  Check(ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++) == 1);
  Check(X509_set_subject_name(certificate.get(), ToName(subject).get()) == 1);
  Check(X509_set_issuer_name(certificate.get(), ToName(issuer).get()) == 1);
  Check(X509_set_pubkey(certificate.get(), key) == 1);
  Check(ASN1_TIME_set(X509_getm_notBefore(certificate.get()), absl::ToTimeT(begin)) != nullptr);
  Check(ASN1_TIME_set(X509_getm_notAfter(certificate.get()), absl::ToTimeT(end)) != nullptr);
  return certificate;
}

std::string Signed(X509* certificate, EVP_PKEY* key) {
  Check(X509_sign(certificate, key, EVP_sha256()) > 0);
  return ToPem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

std::string SelfSigned(const std::string& name, EVP_PKEY* key) {
  const absl::Time begin = absl::Now() - absl::Hours(1);
  const Certificate certificate = NewCertificate(name, name, key, begin, begin + absl::Hours(24));
  AddExtension(certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(certificate.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  return Signed(certificate.get(), key);
}

}  // namespace

struct TestAuthority::Key {
  PrivateKey key = NewKey();
};

TestAuthority::TestAuthority(const std::string& name)
    : key_(std::make_unique<Key>()), name_(name), certificate_(SelfSigned(name, key_->key.get())) {}

TestAuthority::~TestAuthority() = default;

TestIdentity TestAuthority::Issue(absl::Time begin, absl::Time end) const {
  const PrivateKey key = NewKey();
  const Certificate certificate = NewCertificate("tessera test", name_, key.get(), begin, end);
  AddExtension(certificate.get(), NID_basic_constraints, "critical,CA:FALSE");
  AddExtension(certificate.get(), NID_ext_key_usage, "serverAuth,clientAuth");
  AddExtension(certificate.get(), NID_subject_alt_name, "IP:127.0.0.1,DNS:localhost");
  return {Signed(certificate.get(), key_->key.get()), ToPem([&](BIO* bio) {
            return PEM_write_bio_PKCS8PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

TestIdentity TestAuthority::Issue() const {
  const absl::Time begin = absl::Now() - absl::Hours(1);
  return Issue(begin, begin + absl::Hours(12));
}

absl::Time ExpiryOf(const std::string& certificate) {
  const Bio bio(BIO_new_mem_buf(certificate.data(), static_cast<int>(certificate.size())));
  const Certificate parsed(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  std::tm utc;
  Check(parsed != nullptr && ASN1_TIME_to_tm(X509_get0_notAfter(parsed.get()), &utc) == 1);
  return absl::FromTM(utc, absl::UTCTimeZone());
}

}  // namespace tessera
