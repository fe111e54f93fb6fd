#include "server/config/file_bounds.h"

#include "gtest/gtest.h"
#include "server/rpc/health_port.h"

namespace tessera {
namespace {

constexpr uint64_t kOthers = 64;

ServerConfig Config(int max_connections, int64_t max_regions, bool shared_memory) {
  ServerConfig config;
  config.max_connections = max_connections;
  config.regions.max_regions = max_regions;
  config.regions.allow_shared_memory = shared_memory;
  return config;
}

TEST(FileBoundsTest, ThereIsRoomForEverything) {
  const ServerConfig config = Config(1000, 200, true);
  EXPECT_EQ(BoundByFiles(config, kOthers + 1200), (FileBounds{1000, 200}));
  EXPECT_NE(BoundByFiles(config, kOthers + 1199), (FileBounds{1000, 200}));
  EXPECT_EQ(BoundByFiles(config, ~uint64_t{0}), (FileBounds{1000, 200})) << "no limit";
}

TEST(FileBoundsTest, RegionsDoNotTakeTheConnectionsFiles) {
  EXPECT_EQ(BoundByFiles(Config(1024, 256, true), kOthers + 100), (FileBounds{75, 25}));
  EXPECT_EQ(BoundByFiles(Config(1024, 4, true), kOthers + 100), (FileBounds{96, 4}));
  EXPECT_EQ(BoundByFiles(Config(10, 256, true), kOthers + 100), (FileBounds{10, 90}));
}

TEST(FileBoundsTest, RegionsWithoutDescriptorsAreNotBounded) {
  EXPECT_EQ(BoundByFiles(Config(1024, 256, false), kOthers + 100), (FileBounds{100, 256}));
}

TEST(FileBoundsTest, HealthHasItsOwn) {
  ServerConfig config = Config(1024, 256, false);
  config.health_address = "127.0.0.1:0";
  EXPECT_EQ(BoundByFiles(config, kOthers + HealthPort::kMaxConnections + 100), (FileBounds{100, 256}));
}

TEST(FileBoundsTest, OneOfEachIsLeftHoweverLowTheLimit) {
  for (const uint64_t files : {uint64_t{0}, uint64_t{10}, kOthers, kOthers + 1, kOthers + 2}) {
    EXPECT_EQ(BoundByFiles(Config(1024, 256, true), files), (FileBounds{1, 1})) << files;
  }
}

TEST(FileBoundsTest, WhatIsGivenOutFits) {
  for (uint64_t files = kOthers + 2; files < kOthers + 2000; files += 7) {
    for (const int connections : {1, 10, 1024}) {
      for (const int64_t regions : {1, 16, 256}) {
        const FileBounds bounds = BoundByFiles(Config(connections, regions, true), files);
        EXPECT_LE(static_cast<uint64_t>(bounds.max_connections + bounds.max_regions), files - kOthers);
        EXPECT_GE(bounds.max_connections, 1);
        EXPECT_GE(bounds.max_regions, 1);
      }
    }
  }
}

}  // namespace
}  // namespace tessera
