// Who may call: TLS, client certificates, bearer tokens, and what is left to probes in plain text.
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "server/credentials/temporary_folder.h"
#include "server/credentials/test_certificates.h"
#include "tessera/v1/sequence.grpc.pb.h"
#include "tests/server/attend_messages.h"
#include "tests/server/await.h"
#include "tests/server/connection.h"
#include "tests/server/raw_rpc.h"
#include "tests/server/region_client.h"
#include "tests/server/server_process.h"
#include "tests/server/steady_caller.h"
#include "tests/server/stream_client.h"
#include "tests/server/test_server.h"
#include "tests/server/token_line.h"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Code = grpc::StatusCode;

constexpr char kAttendStarted[] =
    "grpc_server_started_total{grpc_method=\"Attend\",grpc_service=\"tessera.v1.AttentionService\",grpc_type="
    "\"unary\"}";
constexpr char kStreamStarted[] =
    "grpc_server_started_total{grpc_method=\"AttendStream\",grpc_service=\"tessera.v1.AttentionService\",grpc_type="
    "\"bidi_stream\"}";
constexpr char kUnauthenticated[] = "tessera_rejected_total{reason=\"unauthenticated\"}";
constexpr char kTokenGone[] = "tessera_rejected_total{reason=\"token\"}";
constexpr char kOtherTenant[] = "tessera_rejected_total{reason=\"tenant\"}";
constexpr char kCertificateTaken[] = "tessera_credential_reloads_total{kind=\"certificate\",result=\"taken\"}";
constexpr char kCertificateRefused[] = "tessera_credential_reloads_total{kind=\"certificate\",result=\"refused\"}";
constexpr char kTokensTaken[] = "tessera_credential_reloads_total{kind=\"tokens\",result=\"taken\"}";
constexpr char kTokensRefused[] = "tessera_credential_reloads_total{kind=\"tokens\",result=\"refused\"}";
constexpr char kExpiry[] = "tessera_tls_certificate_expiry_timestamp_seconds";

class SecurityTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ca_ = new TestAuthority("tessera test CA");
    other_ca_ = new TestAuthority("another test CA");
  }
  static void TearDownTestSuite() {
    delete ca_;
    delete other_ca_;
  }

  // The files of a pair are written one after the other, as operators do it.
  void WriteIdentity(const TestIdentity& identity) const {
    folder_.Write("tls.crt", identity.certificate);
    folder_.Write("tls.key", identity.private_key);
  }
  ServerConfig Tls() const {
    WriteIdentity(ca_->Issue());
    ServerConfig config = TestServer::Config();
    config.tls_certificate = folder_.Path("tls.crt");
    config.tls_private_key = folder_.Path("tls.key");
    return config;
  }
  ServerConfig MutualTls() const {
    ServerConfig config = Tls();
    config.tls_client_ca = folder_.Write("ca.crt", ca_->certificate());
    return config;
  }
  ServerConfig WithTokens(const std::string& lines) const {
    ServerConfig config = Tls();
    config.token_file = folder_.Write("tokens", lines);
    return config;
  }

  // A connection of its own that trusts `roots`, shows `identity`, and sends `token` with every call.
  static std::shared_ptr<grpc::Channel> Connect(TestServer& server, const std::string& roots,
                                                const TestIdentity& identity = {}, const std::string& token = "") {
    std::shared_ptr<grpc::ChannelCredentials> credentials =
        grpc::SslCredentials({roots, identity.private_key, identity.certificate});
    if (!token.empty()) {
      credentials = grpc::CompositeChannelCredentials(credentials, grpc::AccessTokenCredentials(token));
    }
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server.server().grpc_port()), credentials, arguments);
  }
  static std::shared_ptr<grpc::Channel> ConnectWithToken(TestServer& server, const std::string& token) {
    return Connect(server, ca_->certificate(), {}, token);
  }

  grpc::Status Attend(const std::shared_ptr<grpc::Channel>& channel, const std::string& tenant = "") {
    UnaryCall call(*v1::AttentionService::NewStub(channel), request_, tenant);
    return call.Await();
  }
  // No handler has seen a call.
  static void ExpectNothingStarted(const TestServer& server) {
    EXPECT_EQ(server.Metrics()[kAttendStarted], 0);
    EXPECT_EQ(server.Metrics()[kStreamStarted], 0);
  }
  static absl::Status StartStatus(const ServerConfig& config) {
    TestServer device_owner;
    FakeClock clock;
    return Server::Start(config, {&device_owner.device()}, &clock, [](const absl::Status&) {}).status();
  }

  static const TestAuthority* ca_;
  static const TestAuthority* other_ca_;

  const TemporaryFolder folder_;
  std::mt19937_64 rng_{271};
  const v1::AttendRequest request_ = Request(Header({8}), rng_);
};

const TestAuthority* SecurityTest::ca_ = nullptr;
const TestAuthority* SecurityTest::other_ca_ = nullptr;

TEST_F(SecurityTest, TlsServesThoseWhoTrustIt) {
  TestServer server("", Tls());
  const grpc::Status status = Attend(Connect(server, ca_->certificate()), "named");
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(server.Metrics()[kAttendStarted], 1);
}

TEST_F(SecurityTest, TlsServesNobodyElse) {
  TestServer server("", Tls());
  EXPECT_EQ(Attend(Connect(server, other_ca_->certificate())).error_code(), Code::UNAVAILABLE);
  EXPECT_EQ(Attend(server.NewChannel()).error_code(), Code::UNAVAILABLE);  // in plain text
  ExpectNothingStarted(server);
}

TEST_F(SecurityTest, MutualTlsServesThoseWhoseCertificateIsGood) {
  TestServer server("", MutualTls());
  const absl::Time now = absl::Now();
  const std::string& roots = ca_->certificate();
  EXPECT_EQ(Attend(Connect(server, roots)).error_code(), Code::UNAVAILABLE);
  EXPECT_EQ(Attend(Connect(server, roots, other_ca_->Issue())).error_code(), Code::UNAVAILABLE);
  EXPECT_EQ(Attend(Connect(server, roots, ca_->Issue(now - absl::Hours(2), now - absl::Minutes(1)))).error_code(),
            Code::UNAVAILABLE);
  ExpectNothingStarted(server);
  const grpc::Status status = Attend(Connect(server, roots, ca_->Issue()));
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(SecurityTest, TokensLetTheirTenantsIn) {
  TestServer server("", WithTokens(TokenLine("ours", "token of ours")));
  const grpc::Status missing = Attend(Connect(server, ca_->certificate()));
  EXPECT_EQ(missing.error_code(), Code::UNAUTHENTICATED);
  const grpc::Status unknown = Attend(ConnectWithToken(server, "token of nobody"));
  EXPECT_EQ(unknown.error_code(), Code::UNAUTHENTICATED);
  EXPECT_THAT(unknown.error_message(), Not(HasSubstr("nobody")));
  EXPECT_EQ(server.Metrics()[kUnauthenticated], 2);
  const grpc::Status foreign = Attend(ConnectWithToken(server, "token of ours"), "theirs");
  EXPECT_EQ(foreign.error_code(), Code::PERMISSION_DENIED);
  EXPECT_THAT(foreign.error_message(), Not(HasSubstr("ours")));
  EXPECT_EQ(server.Metrics()[kOtherTenant], 1);
  ExpectNothingStarted(server);

  const auto channel = ConnectWithToken(server, "token of ours");
  for (const char* tenant : {"", "ours"}) {
    const grpc::Status good = Attend(channel, tenant);
    EXPECT_TRUE(good.ok()) << good.error_message();
  }
  EXPECT_EQ(server.Metrics()[kAttendStarted], 2);
  EXPECT_EQ(server.Metrics()[kUnauthenticated], 2);
}

TEST_F(SecurityTest, TokensAreAskedForByEveryService) {
  TestServer server("", WithTokens(TokenLine("ours", "token of ours")));
  const auto stranger = Connect(server, ca_->certificate());
  const auto friendly = ConnectWithToken(server, "token of ours");
  for (const auto& [method, request] : std::vector<std::pair<std::string, std::string>>{
           {"/grpc.health.v1.Health/Check", ""},
           {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "\x3a\x01*"},
           {"/grpc.channelz.v1.Channelz/GetServers", ""},
           {"/tessera.v1.RegionService/AttendInRegions", "\x08\x01"},
           {"/tessera.v1.SequenceService/ExtendStream", "\x08\x01"},
           {"/tessera.v1.SequenceService/ReleaseSequences", ""},
           {"/tessera.v1.ServerService/GetServerInfo", ""}}) {
    std::string response;
    EXPECT_EQ(RawCall(stranger, method, request, &response).error_code(), Code::UNAUTHENTICATED) << method;
    EXPECT_EQ(response, "");
    EXPECT_TRUE(RawCall(friendly, method, request, &response).ok()) << method;
  }
  StreamClient stream(*v1::AttentionService::NewStub(stranger));
  stream.HalfClose();
  EXPECT_EQ(stream.Finish().error_code(), Code::UNAUTHENTICATED);
  ExpectNothingStarted(server);
}

TEST_F(SecurityTest, RegionsEndWithTheFirstMessageAfterTheirStreamsToken) {
  ServerConfig config = WithTokens(TokenLine("ours", "one") + TokenLine("ours", "two"));
  config.regions.allow_shared_memory = true;
  TestServer server("", config);
  RegionClient revoked(ConnectWithToken(server, "one"));
  RegionClient kept(ConnectWithToken(server, "two"));
  EXPECT_EQ(revoked.AwaitCode(revoked.SendOpen(1)), Code::OK);
  EXPECT_EQ(kept.AwaitCode(kept.SendOpen(1)), Code::OK);
  folder_.Write("tokens", TokenLine("ours", "two"));
  server.AwaitMetric(kTokensTaken, 1);
  revoked.SendOpen(1);
  EXPECT_EQ(revoked.Finish().error_code(), Code::UNAVAILABLE);
  EXPECT_EQ(kept.AwaitCode(kept.SendOpen(1)), Code::OK);
  server.AwaitMetric("tessera_regions", 2);
}

TEST_F(SecurityTest, CallsAreTheirTokensTenants) {
  ServerConfig config =
      WithTokens(TokenLine("greedy", "one") + TokenLine("greedy", "two") + TokenLine("other", "three"));
  config.attend.max_tenant_memory_share = 0.5;
  TestServer server("", config);
  const auto stub = v1::AttentionService::NewStub(ConnectWithToken(server, "one"));
  StreamClient greedy(*stub);
  // Openings of 1 MiB each; half of 8 MiB of staging is the tenant's.
  for (uint64_t id = 1; id <= 5; ++id) {
    v1::AttendStreamRequest opening;
    opening.set_id(id);
    *opening.mutable_header() = Header({2048});
    greedy.Send(opening);
  }
  EXPECT_EQ(greedy.Await(5).status.code(), static_cast<int>(Code::RESOURCE_EXHAUSTED));
  // On one connection, which is nobody's.
  const auto shared = v1::AttentionService::NewStub(Connect(server, ca_->certificate()));
  const v1::AttendRequest large = Request(Header({2048}), rng_);
  for (const auto& [token, code] : {std::pair("two", Code::RESOURCE_EXHAUSTED), std::pair("three", Code::OK),
                                    std::pair("four", Code::UNAUTHENTICATED)}) {
    grpc::ClientContext context;
    context.set_credentials(grpc::AccessTokenCredentials(token));
    v1::AttendResponse response;
    EXPECT_EQ(shared->Attend(&context, large, &response).error_code(), code) << token;
  }
}

TEST_F(SecurityTest, CertificatesRotateUnderLoadWithoutAFailedCall) {
  ServerConfig config = MutualTls();
  // Each side trusts the old and the new authority before anyone shows a certificate of the new one.
  folder_.Write("ca.crt", ca_->certificate() + other_ca_->certificate());
  TestServer server("", config);
  const std::string both = ca_->certificate() + other_ca_->certificate();
  const TestIdentity old_client = ca_->Issue();
  const TestIdentity new_client = other_ca_->Issue();
  ASSERT_EQ(Attend(Connect(server, other_ca_->certificate(), old_client)).error_code(), Code::UNAVAILABLE);
  const auto lasting = Connect(server, both, old_client);
  {
    const SteadyCaller<grpc::Status> old_caller([&] { return Attend(Connect(server, both, old_client)); });
    const SteadyCaller<grpc::Status> new_caller([&] { return Attend(Connect(server, both, new_client)); });
    const SteadyCaller<grpc::Status> lasting_caller([&] { return Attend(lasting); });
    for (int rotation = 1; rotation <= 3; ++rotation) {
      const TestIdentity next = (rotation % 2 == 1 ? other_ca_ : ca_)->Issue();
      WriteIdentity(next);
      server.AwaitMetric(kCertificateTaken, rotation);
      EXPECT_EQ(server.Metrics()[kExpiry], static_cast<double>(absl::ToUnixSeconds(ExpiryOf(next.certificate))));
      const std::string& roots = (rotation % 2 == 1 ? other_ca_ : ca_)->certificate();
      Await("the new certificate", [&] { return Attend(Connect(server, roots, old_client)).ok(); });
      old_caller.AwaitCall();
      new_caller.AwaitCall();
      lasting_caller.AwaitCall();
    }
  }
  // The old authority is trusted no more: of new connections alone.
  folder_.Write("ca.crt", other_ca_->certificate());
  Await("the new authority", [&] { return !Attend(Connect(server, both, old_client)).ok(); });
  EXPECT_TRUE(Attend(Connect(server, both, new_client)).ok());
  EXPECT_TRUE(Attend(lasting).ok());
  EXPECT_EQ(server.Metrics()[kCertificateRefused], 0);
}

TEST_F(SecurityTest, BadCertificateLeavesTheOldOneInForce) {
  TestServer server("", MutualTls());
  const double expiry = server.Metrics()[kExpiry];
  const TestIdentity client = ca_->Issue();
  const absl::Time now = absl::Now();
  int refused = 0;
  // The refusal comes with the second look, by when gRPC has looked, too.
  const auto expect_old = [&] {
    server.AwaitMetric(kCertificateRefused, ++refused);
    const grpc::Status status = Attend(Connect(server, ca_->certificate(), client));
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(server.Metrics()[kExpiry], expiry);
  };
  folder_.Write("tls.key", ca_->Issue().private_key);
  expect_old();
  WriteIdentity(ca_->Issue(now - absl::Hours(2), now - absl::Minutes(1)));
  expect_old();
  folder_.Write("ca.crt", "");
  expect_old();
  std::filesystem::remove(folder_.Path("tls.crt"));
  expect_old();
  EXPECT_EQ(server.Metrics()[kCertificateTaken], 0);

  folder_.Write("ca.crt", ca_->certificate());
  WriteIdentity(ca_->Issue(now - absl::Hours(1), now + absl::Hours(7)));
  server.AwaitMetric(kCertificateTaken, 1);
  EXPECT_NE(server.Metrics()[kExpiry], expiry);
}

TEST_F(SecurityTest, TokensRotateUnderLoadWithoutAFailedCall) {
  TestServer server("", WithTokens(TokenLine("ours", "old")));
  const auto old_channel = ConnectWithToken(server, "old");
  const auto new_channel = ConnectWithToken(server, "new");
  {
    const SteadyCaller<grpc::Status> old_caller([&] { return Attend(old_channel); });
    folder_.Write("tokens", TokenLine("ours", "old") + TokenLine("ours", "new"));
    server.AwaitMetric(kTokensTaken, 1);
    {
      const SteadyCaller<grpc::Status> new_caller([&] { return Attend(new_channel); });
      new_caller.AwaitCall();
      old_caller.AwaitCall();
    }
  }
  const SteadyCaller<grpc::Status> new_caller([&] { return Attend(new_channel); });
  folder_.Write("tokens", TokenLine("ours", "new"));
  server.AwaitMetric(kTokensTaken, 2);
  EXPECT_EQ(Attend(old_channel).error_code(), Code::UNAUTHENTICATED);
  folder_.Write("tokens", "this is no list of tokens");
  server.AwaitMetric(kTokensRefused, 1);
  new_caller.AwaitCall();
}

TEST_F(SecurityTest, StreamEndsWithTheFirstMessageAfterItsToken) {
  TestServer server("", WithTokens(TokenLine("ours", "one") + TokenLine("ours", "two")));
  const auto one = v1::AttentionService::NewStub(ConnectWithToken(server, "one"));
  const auto two = v1::AttentionService::NewStub(ConnectWithToken(server, "two"));
  StreamClient revoked(*one);
  StreamClient reassigned(*two);
  StreamClient kept(*two);
  for (StreamClient* stream : {&revoked, &reassigned, &kept}) {
    stream->Send(StreamMessages(1, request_, 1 << 20));
    EXPECT_TRUE(stream->Await(1).result.has_value());
  }
  grpc::ClientContext context;
  const auto sequences = v1::SequenceService::NewStub(ConnectWithToken(server, "two"));
  const auto steps = sequences->ExtendStream(&context);
  const v1::ExtendStreamRequest step;  // of no sequence: a call that is refused
  v1::ExtendStreamResponse refusal;
  EXPECT_TRUE(steps->Write(step) && steps->Read(&refusal));
  // A call that is open when the token goes; messages are handled in order.
  revoked.Send({StreamMessages(3, request_, 64).front()});
  revoked.Send(StreamMessages(4, request_, 1 << 20));
  EXPECT_TRUE(revoked.Await(4).result.has_value());
  folder_.Write("tokens", TokenLine("ours", "two"));
  server.AwaitMetric(kTokensTaken, 1);
  revoked.Send(StreamMessages(2, request_, 1 << 20));
  EXPECT_EQ(revoked.Finish().error_code(), Code::UNAVAILABLE);
  EXPECT_EQ(server.Metrics()[kUnauthenticated], 1);
  EXPECT_EQ(server.Metrics()[kTokenGone], 1);
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"draining\"}"], 0);
  kept.Send(StreamMessages(2, request_, 1 << 20));
  EXPECT_TRUE(kept.Await(2).result.has_value());
  folder_.Write("tokens", TokenLine("theirs", "two"));
  server.AwaitMetric(kTokensTaken, 2);
  reassigned.Send(StreamMessages(2, request_, 1 << 20));
  EXPECT_EQ(reassigned.Finish().error_code(), Code::UNAVAILABLE);
  EXPECT_EQ(server.Metrics()[kOtherTenant], 1);
  EXPECT_TRUE(steps->Write(step));
  EXPECT_FALSE(steps->Read(&refusal));
  EXPECT_EQ(steps->Finish().error_code(), Code::UNAVAILABLE);
  EXPECT_EQ(server.Metrics()[kOtherTenant], 2);
  // Whoever comes again is told.
  StreamClient again(*one);
  EXPECT_EQ(again.Finish().error_code(), Code::UNAUTHENTICATED);
}

TEST_F(SecurityTest, ServerWithBadFilesDoesNotStart) {
  const absl::Time now = absl::Now();
  const auto expect_refused = [&](const ServerConfig& config, const char* what) {
    const absl::Status status = StartStatus(config);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  };
  ServerConfig config = MutualTls();
  config.tls_certificate = folder_.Path("none");
  expect_refused(config, "none");
  config = MutualTls();
  folder_.Write("tls.key", ca_->Issue().private_key);
  expect_refused(config, "tls_private_key");
  config = MutualTls();
  WriteIdentity(ca_->Issue(now - absl::Hours(2), now - absl::Minutes(1)));
  expect_refused(config, "expired");
  config = MutualTls();
  folder_.Write("ca.crt", "");
  expect_refused(config, "tls_client_ca");
  expect_refused(WithTokens("ours token"), "token_file");
  expect_refused(WithTokens(""), "token_file");
}

TEST_F(SecurityTest, ProgramWithBadFilesExits) {
  ServerProcess process(TESSERA_SERVER, {"--tls-certificate=" + folder_.Path("none"), "--tls-private-key=x"});
  EXPECT_FALSE(process.serving());
  EXPECT_EQ(process.Wait(), 64);
}

class HealthPortTest : public SecurityTest {
 protected:
  static std::shared_ptr<grpc::Channel> Probe(TestServer& server) {
    return grpc::CreateChannel(absl::StrCat("127.0.0.1:", server.server().health_port()),
                               grpc::InsecureChannelCredentials());
  }
  // What the port says of the server, and of each service: HealthCheckResponse{status = 1}.
  static void ExpectHealth(const std::shared_ptr<grpc::Channel>& probe, const std::string& expected) {
    for (const std::string service : {"", "tessera.v1.AttentionService", "tessera.v1.ServerService"}) {
      const std::string request =
          service.empty() ? "" : absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())), service);
      std::string response;
      const grpc::Status status = RawCall(probe, "/grpc.health.v1.Health/Check", request, &response);
      EXPECT_TRUE(status.ok()) << service << ": " << status.error_message();
      EXPECT_EQ(response, expected) << service;
    }
  }
  static inline const std::string kServing = "\x08\x01";
  static inline const std::string kNotServing = "\x08\x02";
};

TEST_F(HealthPortTest, ServesHealthInPlainTextAndNothingElse) {
  ServerConfig config = WithTokens(TokenLine("ours", "token of ours"));
  config.health_address = "127.0.0.1:0";
  TestServer server("", config);
  const auto probe = Probe(server);
  ExpectHealth(probe, kServing);
  EXPECT_EQ(Attend(probe).error_code(), Code::UNIMPLEMENTED);
  for (const char* method : {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                             "/grpc.channelz.v1.Channelz/GetServers", "/tessera.v1.ServerService/GetServerInfo"}) {
    std::string response;
    EXPECT_EQ(RawCall(probe, method, "", &response).error_code(), Code::UNIMPLEMENTED) << method;
  }
  ExpectNothingStarted(server);
  server.server().StopAccepting();
  ExpectHealth(probe, kNotServing);
}

TEST_F(HealthPortTest, SaysNotServingOnceTheDeviceIsLost) {
  ServerConfig config = TestServer::Config();
  config.health_address = "127.0.0.1:0";
  TestServer server("run@1=sticky", config);
  const auto probe = Probe(server);
  ExpectHealth(probe, kServing);
  EXPECT_EQ(Attend(server.channel()).error_code(), Code::UNAVAILABLE);
  EXPECT_FALSE(server.AwaitFatal().ok());
  ExpectHealth(probe, kNotServing);
}

TEST_F(HealthPortTest, HasConnectionsOfItsOwn) {
  ServerConfig config = TestServer::Config();
  config.health_address = "127.0.0.1:0";
  config.max_connections = 1;
  TestServer server("", config);
  const Connection only(server.server().grpc_port());
  ASSERT_FALSE(only.ClosedAtOnce());
  ASSERT_TRUE(Connection(server.server().grpc_port()).ClosedAtOnce());
  ExpectHealth(Probe(server), kServing);
  std::vector<Connection> probes;
  for (size_t i = 0; i <= HealthPort::kMaxConnections; ++i) probes.emplace_back(server.server().health_port());
  EXPECT_TRUE(probes.back().ClosedAtOnce());
}

TEST_F(HealthPortTest, PortInUseIsAnError) {
  ServerConfig config = TestServer::Config();
  config.health_address = "127.0.0.1:0";
  TestServer first("", config);
  config.health_address = absl::StrCat("127.0.0.1:", first.server().health_port());
  EXPECT_EQ(StartStatus(config).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tessera::testing
