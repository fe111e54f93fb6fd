#include "server/config.h"

#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(ConfigTest, DefaultsAreValidAndFitEachOther) {
  const ServerConfig config;
  EXPECT_TRUE(ValidateConfig(config).ok());
  EXPECT_EQ(FittedLimits(config, config.staging_bytes).request.max_request_bytes,
            config.attend.request.max_request_bytes);
}

TEST(ConfigTest, RequestLimitIsLoweredToWhatCanEverFit) {
  ServerConfig config;
  config.attend.max_tenant_memory_share = 1;
  config.attend.request.max_request_bytes = 1000 << 20;
  config.max_inflight_bytes = 900 << 20;
  EXPECT_EQ(FittedLimits(config, 2000 << 20).request.max_request_bytes, 900 << 20);
  EXPECT_EQ(FittedLimits(config, 800 << 20).request.max_request_bytes, 800 << 20);
  config.attend.max_tenant_memory_share = 0.5;
  EXPECT_EQ(FittedLimits(config, 800 << 20).request.max_request_bytes, 400 << 20);
  config.scheduler.max_queue_bytes = 600 << 20;
  config.scheduler.max_tenant_share = 0.25;
  EXPECT_EQ(FittedLimits(config, 800 << 20).request.max_request_bytes, 150 << 20);
}

TEST(ConfigTest, ShareOfATenantIsAPart) {
  ServerConfig config;
  for (const double share : {0.0, -1.0, 1.1, 0.0 / 0.0}) {
    config.attend.max_tenant_memory_share = share;
    EXPECT_EQ(ValidateConfig(config).code(), absl::StatusCode::kInvalidArgument) << share;
  }
}

}  // namespace
}  // namespace tessera
