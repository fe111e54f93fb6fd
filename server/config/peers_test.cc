#include "server/config/peers.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(PeersTest, ListsAndRanges) {
  EXPECT_THAT(ParsePeers("").value(), IsEmpty());
  EXPECT_THAT(ParsePeers("a:1, b:2").value(), ElementsAre("a:1", "b:2"));
  EXPECT_THAT(ParsePeers("kv-{8..10}.kv:7171,x:1").value(),
              ElementsAre("kv-8.kv:7171", "kv-9.kv:7171", "kv-10.kv:7171", "x:1"));
  EXPECT_THAT(ParsePeers("kv-{3..3}:1").value(), ElementsAre("kv-3:1"));
}

TEST(PeersTest, WhatIsNoRangeIsRefused) {
  for (const char* text : {"kv-{0..", "kv-{}:1", "kv-{0}:1", "kv-{2..1}:1", "kv-{a..b}:1", "kv-{-1..1}:1",
                           "{0..1}-{0..1}:1", "kv-{00..03}:1", "kv-{0..03}:1"}) {
    EXPECT_THAT(ParsePeers(text).status().message(), HasSubstr("no range")) << text;
  }
}

TEST(PeersTest, AreBounded) {
  EXPECT_EQ(ParsePeers("kv-{1..4096}:1").value().size(), kMostPeers);
  EXPECT_THAT(ParsePeers("kv-{0..4096}:1").status().message(), HasSubstr("limit"));
  EXPECT_THAT(ParsePeers("kv-{0..4294967295}:1").status().message(), HasSubstr("limit"));
}

}  // namespace
}  // namespace tessera
