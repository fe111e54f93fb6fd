#include "server/credentials/tls_material.h"

#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/credentials/test_certificates.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TlsMaterialTest : public ::testing::Test {
 protected:
  absl::StatusOr<TlsMaterial> Judge(const std::string* client_ca = nullptr) const {
    return JudgeTlsMaterial(identity_.certificate, identity_.private_key, client_ca, absl::Now());
  }
  // Expects a refusal whose message names `flag`, says `what`, and tells nothing of the key.
  void ExpectRefused(const absl::StatusOr<TlsMaterial>& judged, const char* flag, const char* what) const {
    ASSERT_EQ(judged.status().code(), absl::StatusCode::kInvalidArgument);
    const std::string message(judged.status().message());
    EXPECT_THAT(message, HasSubstr(flag));
    EXPECT_THAT(message, HasSubstr(what));
    EXPECT_THAT(message, Not(HasSubstr(identity_.private_key.substr(40, 10))));
  }

  const TestAuthority authority_{"tessera test CA"};
  TestIdentity identity_ = authority_.Issue();
};

TEST_F(TlsMaterialTest, GoodOnesAreTakenWithTheirExpiry) {
  const std::string client_ca = authority_.certificate();
  const absl::StatusOr<TlsMaterial> judged = Judge(&client_ca);
  ASSERT_TRUE(judged.ok()) << judged.status();
  EXPECT_EQ(judged->expiry, ExpiryOf(identity_.certificate));
  EXPECT_EQ(judged->client_ca, client_ca);
  EXPECT_EQ(judged->identity, identity_.certificate + identity_.private_key);
}

TEST_F(TlsMaterialTest, ChainExpiresWithItsFirstCertificateToExpire) {
  const absl::Time now = absl::Now();
  identity_ = authority_.Issue(now - absl::Hours(1), now + absl::Hours(48));
  identity_.certificate += authority_.certificate();
  const absl::StatusOr<TlsMaterial> judged = Judge();
  ASSERT_TRUE(judged.ok()) << judged.status();
  EXPECT_EQ(judged->expiry, ExpiryOf(authority_.certificate()));
}

TEST_F(TlsMaterialTest, NothingButChainAndKeyIsKept) {
  // As of files that hold both.
  const std::string both = identity_.certificate + identity_.private_key;
  const absl::StatusOr<TlsMaterial> judged = JudgeTlsMaterial(both, both, nullptr, absl::Now());
  ASSERT_TRUE(judged.ok()) << judged.status();
  EXPECT_EQ(judged->identity, both);
}

TEST_F(TlsMaterialTest, ExpiredAndNotYetValidAreRefused) {
  const absl::Time now = absl::Now();
  identity_ = authority_.Issue(now - absl::Hours(2), now - absl::Seconds(2));
  ExpectRefused(Judge(), "tls_certificate", "expired");
  identity_ = authority_.Issue(now + absl::Hours(1), now + absl::Hours(2));
  ExpectRefused(Judge(), "tls_certificate", "not valid before");
}

TEST_F(TlsMaterialTest, KeyOfAnotherCertificateIsRefused) {
  identity_.private_key = authority_.Issue().private_key;
  ExpectRefused(Judge(), "tls_private_key", "another certificate");
}

TEST_F(TlsMaterialTest, WhatDoesNotParseIsRefused) {
  const TestIdentity good = identity_;
  identity_.certificate = "";
  ExpectRefused(Judge(), "tls_certificate", "no certificate");
  identity_.certificate = good.private_key;
  ExpectRefused(Judge(), "tls_certificate", "no certificate");
  identity_.certificate = good.certificate + good.certificate.substr(0, good.certificate.size() / 2);
  ExpectRefused(Judge(), "tls_certificate", "certificate 2");
  identity_ = good;
  identity_.private_key = good.private_key.substr(0, good.private_key.size() / 2);
  ExpectRefused(Judge(), "tls_private_key", "no private key");
}

TEST_F(TlsMaterialTest, ClientCaMustHoldACertificateThatIsValid) {
  const std::string empty;
  ExpectRefused(Judge(&empty), "tls_client_ca", "no certificate");
  const absl::Time now = absl::Now();
  const std::string expired = authority_.Issue(now - absl::Hours(2), now - absl::Seconds(2)).certificate;
  ExpectRefused(Judge(&expired), "tls_client_ca", "valid now");
  const std::string mixed = expired + authority_.certificate();
  EXPECT_TRUE(Judge(&mixed).ok());
}

}  // namespace
}  // namespace tessera
