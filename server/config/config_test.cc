#include "server/config/config.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/region/shared_memory.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ConfigTest, DefaultsAreValidAndFitEachOther) {
  const ServerConfig config;
  EXPECT_TRUE(ValidateConfig(config).ok());
  EXPECT_EQ(FittedLimits(config, config.staging_bytes, "cpu", 0).request.max_request_bytes,
            config.attend.request.max_request_bytes);
}

TEST(ConfigTest, RequestLimitIsLoweredToWhatCanEverFit) {
  ServerConfig config;
  config.attend.max_tenant_memory_share = 1;
  config.attend.request.max_request_bytes = 1000 << 20;
  config.max_inflight_bytes = 900 << 20;
  EXPECT_EQ(FittedLimits(config, 2000 << 20, "cpu", 0).request.max_request_bytes, 900 << 20);
  EXPECT_EQ(FittedLimits(config, 800 << 20, "cpu", 0).request.max_request_bytes, 800 << 20);
  config.attend.max_tenant_memory_share = 0.5;
  EXPECT_EQ(FittedLimits(config, 800 << 20, "cpu", 0).request.max_request_bytes, 400 << 20);
  config.scheduler.max_queue_bytes = 600 << 20;
  config.scheduler.max_tenant_share = 0.25;
  EXPECT_EQ(FittedLimits(config, 800 << 20, "cpu", 0).request.max_request_bytes, 150 << 20);
}

TEST(ConfigTest, CostLimitSuitsTheBackendWhereNoneIsSet) {
  ServerConfig config;
  EXPECT_EQ(FittedLimits(config, 1 << 30, "cpu", 0).request.max_request_cost, int64_t{1} << 41);
  EXPECT_EQ(FittedLimits(config, 1 << 30, "cuda", 0).request.max_request_cost, int64_t{1} << 52);
  config.attend.request.max_request_cost = 12345;
  EXPECT_EQ(FittedLimits(config, 1 << 30, "cuda", 0).request.max_request_cost, 12345);
  config.attend.request.max_request_cost = -1;
  EXPECT_EQ(ValidateConfig(config).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ConfigTest, RequestLimitIsLoweredToTheDevicesMemory) {
  ServerConfig config;
  config.attend.request.max_request_bytes = 1000 << 20;
  config.attend.max_tenant_memory_share = 1;
  EXPECT_EQ(FittedLimits(config, 2000 << 20, "cuda", 300 << 20).request.max_request_bytes, 300 << 20);
}

TEST(ConfigTest, SlotsSuitTheBackendUnlessGiven) {
  ServerConfig config;
  EXPECT_EQ(SlotsFor(config, "cpu"), 1);
  EXPECT_GT(SlotsFor(config, "cuda"), 2);
  config.slots = 7;
  EXPECT_EQ(SlotsFor(config, "cpu"), 7);
  EXPECT_EQ(SlotsFor(config, "cuda"), 7);
}

TEST(ConfigTest, MemoryFractionIsAPart) {
  ServerConfig config;
  for (const double fraction : {0.0, 1.0, -0.5, 0.0 / 0.0}) {
    config.memory_fraction = fraction;
    EXPECT_EQ(ValidateConfig(config).code(), absl::StatusCode::kInvalidArgument) << fraction;
  }
}

TEST(ConfigTest, ServersOfASetHaveAddressesToGoTo) {
  ServerConfig config;
  config.advertise = "kv-0.kv:7171";
  config.peers = {"kv-0.kv:7171", "[::1]:7171"};
  EXPECT_TRUE(ValidateConfig(config).ok());
  const std::string long_name(301, 'a');
  for (const std::string& wrong :
       {std::string("kv-0"), std::string("kv-0:0"), std::string("kv-0:07"), std::string(":7171"),
        std::string("kv-0:65536"), std::string("kv-0\xe2\x80\x93a:1"), std::string("k\r\nx:1"), std::string("k\x7f:1"),
        std::string("k\xff:1"), std::string("b c:1"), std::string("k}:1"), std::string("k\0:1", 4), long_name + ":1"}) {
    config.peers[1] = wrong;
    EXPECT_THAT(std::string(ValidateConfig(config).message()), HasSubstr("peers")) << wrong;
  }
  config.peers.pop_back();
  config.advertise = "kv-0\n.kv:7171";
  EXPECT_THAT(std::string(ValidateConfig(config).message()), HasSubstr("advertise"));
  config.advertise = "kv-0.kv:0";
  EXPECT_THAT(std::string(ValidateConfig(config).message()), HasSubstr("advertise"));
  config.advertise.clear();
  EXPECT_THAT(std::string(ValidateConfig(config).message()), HasSubstr("peers: needs advertise"));
}

TEST(ConfigTest, NoSingleMessageFillsTheTransport) {
  ServerConfig config;
  config.max_message_bytes = 1 << 20;
  config.transport_bytes = kTransportBytesPerMessageByte * config.max_message_bytes;
  EXPECT_TRUE(ValidateConfig(config).ok());
  ++config.max_message_bytes;
  const absl::Status status = ValidateConfig(config);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("max_message_bytes"), HasSubstr("transport_bytes")));
}

TEST(ConfigTest, AddressesHaveAHostAndAPort) {
  const std::pair<const char*, std::string ServerConfig::*> addresses[] = {
      {"listen", &ServerConfig::listen}, {"metrics_address", &ServerConfig::metrics_address}};
  for (const auto& [name, address] : addresses) {
    ServerConfig config;
    for (const char* good : {"0.0.0.0:0", "localhost:65535", "[::]:7171", "[::1]:1", "a-b.c:07171"}) {
      config.*address = good;
      EXPECT_EQ(ValidateConfig(config), absl::OkStatus()) << good;
    }
    for (const char* bad :
         {"localhost", "7171", ":7171", "localhost:", "localhost:65536", "localhost:70000", "localhost:4294967297",
          "localhost:99999999999999999999", "localhost:-1", "localhost:+1", "localhost: 1", "localhost:http",
          "::1:7171", "[]:1", "[::1]", "localhost:1,localhost:2", "localhost:1s", "https://localhost:1"}) {
      config.*address = bad;
      const absl::Status status = ValidateConfig(config);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
      EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(name), HasSubstr(bad)));
    }
  }
  ServerConfig config;
  config.metrics_address = "";
  EXPECT_TRUE(ValidateConfig(config).ok()) << "none is served";
  config.listen = "";
  EXPECT_FALSE(ValidateConfig(config).ok());
  for (const char* socket : {"unix:/run/tessera", "unix:tessera", "unix-abstract:tessera"}) {
    config.listen = socket;
    EXPECT_EQ(ValidateConfig(config), absl::OkStatus()) << socket;
    config.metrics_address = socket;
    EXPECT_FALSE(ValidateConfig(config).ok()) << socket;
    config.metrics_address = "";
  }
}

TEST(ConfigTest, ShareOfATenantIsAPart) {
  ServerConfig config;
  for (const double share : {0.0, -1.0, 1.1, 0.0 / 0.0}) {
    config.attend.max_tenant_memory_share = share;
    EXPECT_EQ(ValidateConfig(config).code(), absl::StatusCode::kInvalidArgument) << share;
  }
}

TEST(ConfigTest, RegionsHaveRoomForAPage) {
  ServerConfig config;
  const auto page = static_cast<int64_t>(SharedMemory::PageBytes());
  config.regions.max_bytes = page;
  EXPECT_EQ(ValidateConfig(config), absl::OkStatus());
  for (const int64_t bytes : {int64_t{1}, page - 1}) {
    config.regions.max_bytes = bytes;
    const absl::Status status = ValidateConfig(config);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bytes;
    EXPECT_THAT(std::string(status.message()), HasSubstr("max_region_bytes"));
  }
}

TEST(ConfigTest, TokensAndClientCertificatesNeedTls) {
  ServerConfig config;
  config.token_file = "tokens";
  EXPECT_THAT(std::string(ValidateConfig(config).message()), HasSubstr("token_file"));
  config.tls_certificate = "tls.crt";
  EXPECT_THAT(std::string(ValidateConfig(config).message()), HasSubstr("tls_private_key"));
  config.tls_private_key = "tls.key";
  EXPECT_TRUE(ValidateConfig(config).ok());
  config = ServerConfig();
  config.tls_client_ca = "ca.crt";
  EXPECT_THAT(std::string(ValidateConfig(config).message()), HasSubstr("tls_client_ca"));
}

TEST(ConfigTest, HealthAddressIsAHostAndAPort) {
  ServerConfig config;
  config.health_address = "0.0.0.0:7172";
  EXPECT_TRUE(ValidateConfig(config).ok());
  config.health_address = "7172";
  EXPECT_THAT(std::string(ValidateConfig(config).message()), HasSubstr("health_address"));
}

}  // namespace
}  // namespace tessera
