// The C++ client and its programs against a server that asks for certificates and tokens.
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/cpp/tessera/client.h"
#include "client/cpp/tessera/security.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/credentials/temporary_folder.h"
#include "server/credentials/test_certificates.h"
#include "tests/server/attend_messages.h"
#include "tests/server/await.h"
#include "tests/server/steady_caller.h"
#include "tests/server/test_server.h"
#include "tests/server/token_line.h"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SecureClientTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ca_ = new TestAuthority("tessera test CA");
    other_ca_ = new TestAuthority("another test CA");
  }
  static void TearDownTestSuite() {
    delete ca_;
    delete other_ca_;
  }

  // The server's files; its clients need a certificate and the token "old".
  ServerConfig Config() const {
    const TestIdentity identity = ca_->Issue();
    ServerConfig config = TestServer::Config();
    config.tls_certificate = folder_.Write("server.crt", identity.certificate);
    config.tls_private_key = folder_.Write("server.key", identity.private_key);
    config.tls_client_ca = folder_.Write("client_ca.crt", ca_->certificate());
    config.token_file = folder_.Write("tokens", TokenLine("ours", "old"));
    return config;
  }
  // The client's certificate and key, changed in one step: by another folder behind the link "client".
  void SetClientIdentity(const TestIdentity& identity) {
    const std::string name = absl::StrCat("client", ++identities_);
    std::filesystem::create_directory(folder_.Path(name));
    folder_.Write(name + "/tls.crt", identity.certificate);
    folder_.Write(name + "/tls.key", identity.private_key);
    std::filesystem::create_directory_symlink(name, folder_.Path("next"));
    std::filesystem::rename(folder_.Path("next"), folder_.Path("client"));
  }
  SecurityOptions Security() {
    SetClientIdentity(ca_->Issue());
    SecurityOptions security;
    security.root_certificates = folder_.Write("roots.crt", ca_->certificate());
    security.certificate = folder_.Path("client/tls.crt");
    security.private_key = folder_.Path("client/tls.key");
    security.token_file = folder_.Write("token", "old\n");
    return security;
  }

  static std::string Target(TestServer& server) { return absl::StrCat("127.0.0.1:", server.server().grpc_port()); }
  static std::unique_ptr<Client> Connect(TestServer& server, std::shared_ptr<grpc::ChannelCredentials> credentials,
                                         Transport transport = Transport::kAuto, int attempts = 1) {
    ClientOptions options;
    options.connections = 1;
    options.retry.max_attempts = attempts;
    options.transport = transport;
    options.credentials = std::move(credentials);
    return Client::Connect(Target(server), options).value();
  }
  absl::Status Attend(Client* client) const {
    std::string o(request_.q().size(), '\0');
    AttendCall call;
    call.header = request_.header();
    call.q = Bytes(request_.q());
    call.k = Bytes(request_.k());
    call.v = Bytes(request_.v());
    call.o = absl::MakeSpan(reinterpret_cast<std::byte*>(o.data()), o.size());
    const absl::Status status = client->Attend(call).status();
    if (status.ok()) {
      EXPECT_LT(Error(request_, o), 1e-5);
    }
    return status;
  }
  // Over a connection of its own.
  absl::Status AttendAnew(TestServer& server, const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    return Attend(Connect(server, credentials).get());
  }
  static absl::Span<const std::byte> Bytes(const std::string& tensor) {
    return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(tensor.data()), tensor.size());
  }

  static const TestAuthority* ca_;
  static const TestAuthority* other_ca_;

  const TemporaryFolder folder_;
  int identities_ = 0;
  std::mt19937_64 rng_{314};
  const v1::AttendRequest request_ = Request(Header({8}), rng_);
};

const TestAuthority* SecureClientTest::ca_ = nullptr;
const TestAuthority* SecureClientTest::other_ca_ = nullptr;

TEST_F(SecureClientTest, CallsByEveryTransport) {
  TestServer server("", Config());
  const auto credentials = MakeCredentials(Security()).value();
  for (const Transport transport : {Transport::kUnary, Transport::kStream}) {
    const auto client = Connect(server, credentials, transport);
    const absl::Status status = Attend(client.get());
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(client->CheckHealth().ok());
    EXPECT_TRUE(client->GetServerInfo().ok());
  }
}

TEST_F(SecureClientTest, HearsWhyItIsRefused) {
  TestServer server("", Config());
  const SecurityOptions good = Security();
  for (const Transport transport : {Transport::kUnary, Transport::kStream}) {
    const auto code_of = [&](const SecurityOptions& security) {
      return Attend(Connect(server, MakeCredentials(security).value(), transport).get()).code();
    };
    SecurityOptions security = good;
    security.root_certificates = folder_.Write("other.crt", other_ca_->certificate());
    EXPECT_EQ(code_of(security), absl::StatusCode::kUnavailable);
    security = good;
    security.certificate = security.private_key = "";
    EXPECT_EQ(code_of(security), absl::StatusCode::kUnavailable);
    security = good;
    security.token_file = "";
    EXPECT_EQ(code_of(security), absl::StatusCode::kUnauthenticated);
    security.token = "unknown";
    EXPECT_EQ(code_of(security), absl::StatusCode::kUnauthenticated);
    security.token = " old\n";
    EXPECT_EQ(code_of(security), absl::StatusCode::kOk);
  }
}

TEST_F(SecureClientTest, ServerMustBearTheNameThatIsExpected) {
  TestServer server("", Config());
  for (const auto& [name, code] :
       {std::pair("localhost", absl::StatusCode::kOk), std::pair("elsewhere", absl::StatusCode::kUnavailable)}) {
    ClientOptions options;
    options.connections = 1;
    options.retry.max_attempts = 1;
    options.credentials = MakeCredentials(Security()).value();
    options.server_name = name;
    EXPECT_EQ(Attend(Client::Connect(Target(server), options).value().get()).code(), code) << name;
  }
}

TEST_F(SecureClientTest, BadFilesAndOptionsAreInvalid) {
  const SecurityOptions good = Security();
  const auto expect_invalid = [](const SecurityOptions& security, const char* what) {
    const absl::Status status = MakeCredentials(security).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  };
  SecurityOptions security = good;
  security.root_certificates = folder_.Path("none");
  expect_invalid(security, "none");
  security = good;
  security.root_certificates = folder_.Write("text", "no PEM");
  expect_invalid(security, "text");
  security = good;
  security.private_key = "";
  expect_invalid(security, "private_key");
  security = good;
  security.token = "secret";
  expect_invalid(security, "token_file");
  security = good;
  security.token_file = folder_.Write("empty", " \n");
  expect_invalid(security, "empty");
  security.token_file = folder_.Write("two", "secret secret");
  expect_invalid(security, "two");
}

TEST_F(SecureClientTest, CertificatesRotateOnBothSidesWithoutAFailedCall) {
  ServerConfig config = Config();
  const std::string both = ca_->certificate() + other_ca_->certificate();
  folder_.Write("client_ca.crt", both);
  SecurityOptions security = Security();
  folder_.Write("roots.crt", both);
  TestServer server("", config);
  const auto credentials = MakeCredentials(security).value();
  const auto lasting = Connect(server, credentials);
  const SteadyCaller<absl::Status> caller([&] { return AttendAnew(server, credentials); });
  const SteadyCaller<absl::Status> lasting_caller([&] { return Attend(lasting.get()); });
  caller.AwaitCall();

  SetClientIdentity(other_ca_->Issue());
  const TestIdentity next = other_ca_->Issue();
  folder_.Write("server.crt", next.certificate);
  folder_.Write("server.key", next.private_key);
  server.AwaitMetric("tessera_credential_reloads_total{kind=\"certificate\",result=\"taken\"}", 1);
  // Of whoever connects from here on, both show certificates of the new authority: who trusts no other gets through.
  security.root_certificates = folder_.Write("new_roots.crt", other_ca_->certificate());
  const auto new_credentials = MakeCredentials(security).value();
  Await("the server's new certificate", [&] { return AttendAnew(server, new_credentials).ok(); });
  caller.AwaitCall();
  folder_.Write("client_ca.crt", other_ca_->certificate());
  server.AwaitMetric("tessera_credential_reloads_total{kind=\"certificate\",result=\"taken\"}", 2);
  SecurityOptions old = security;
  const TestIdentity old_identity = ca_->Issue();
  old.certificate = folder_.Write("old.crt", old_identity.certificate);
  old.private_key = folder_.Write("old.key", old_identity.private_key);
  const auto old_credentials = MakeCredentials(old).value();
  Await("the server's new authority", [&] { return !AttendAnew(server, old_credentials).ok(); });
  caller.AwaitCall();
  lasting_caller.AwaitCall();
}

TEST_F(SecureClientTest, TokenIsReadAnewWithoutAFailedCall) {
  TestServer server("", Config());
  const auto credentials = MakeCredentials(Security()).value();
  const auto client = Connect(server, credentials, Transport::kUnary);
  // Tries again: the server ends its stream, which was opened with the old token.
  const auto stream_client = Connect(server, credentials, Transport::kStream, 4);
  // Has its calls refused until they carry the new token.
  ClientOptions options;
  options.tenant = "theirs";
  options.credentials = credentials;
  const auto witness = Client::Connect(Target(server), options).value();
  const SteadyCaller<absl::Status> caller([&] { return Attend(client.get()); });
  const SteadyCaller<absl::Status> stream_caller([&] { return Attend(stream_client.get()); });
  folder_.Write("tokens", TokenLine("ours", "old") + TokenLine("theirs", "new"));
  server.AwaitMetric("tessera_credential_reloads_total{kind=\"tokens\",result=\"taken\"}", 1);
  EXPECT_EQ(Attend(witness.get()).code(), absl::StatusCode::kPermissionDenied);
  folder_.Write("token", "new\n");
  Await("the new token", [&] { return Attend(witness.get()).ok(); });
  caller.AwaitCall();
  folder_.Write("tokens", TokenLine("theirs", "new"));
  server.AwaitMetric("tessera_credential_reloads_total{kind=\"tokens\",result=\"taken\"}", 2);
  caller.AwaitCall();
  stream_caller.AwaitCall();
}

// Runs a program to its end. Returns its exit code.
int RunProgram(const std::string& command) {
  const int status = std::system(absl::StrCat(command, " >/dev/null 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(SecureClientTest, ProgramsTakeFlags) {
  TestServer server("", Config());
  const SecurityOptions security = Security();
  const std::string tls =
      absl::StrCat(" --target=", Target(server), " --tls-ca=", security.root_certificates,
                   " --tls-certificate=", security.certificate, " --tls-private-key=", security.private_key);
  const std::string all = absl::StrCat(tls, " --token-file=", security.token_file);
  EXPECT_EQ(RunProgram(absl::StrCat(TESSERA_CLI, all, " health")), 0);
  EXPECT_EQ(RunProgram(absl::StrCat(TESSERA_CLI, tls, " health")), 1);  // UNAUTHENTICATED
  EXPECT_EQ(RunProgram(absl::StrCat(TESSERA_CLI, " --target=", Target(server), " --timeout=2s health")), 3);
  EXPECT_EQ(RunProgram(absl::StrCat(TESSERA_CLI, " --target=", Target(server), " --token-file=", security.token_file,
                                    " health")),
            2);
  const std::string load = " --requests=20 --callers=4 --warm-up=0s --shape=s=16 --progress=false";
  EXPECT_EQ(RunProgram(absl::StrCat(TESSERA_LOAD, all, load)), 0);
  EXPECT_NE(RunProgram(absl::StrCat(TESSERA_LOAD, tls, load, " --give-up-after=5")), 0);
}

}  // namespace
}  // namespace tessera::testing
