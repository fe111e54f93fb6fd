#include "server/rpc/server_names.h"

#include <string>

#include "gtest/gtest.h"
#include "proto/wire/server_id.h"
#include "server/rpc/status.h"

namespace tessera {
namespace {

constexpr SequenceHandle kHandle{.epoch = 0x0102030405060708, .slot = 3, .generation = 5, .secret = 0xf1f2f3f4f5f6f7f8};

// Vectors of FNV-1a, for clients in other languages.
TEST(ServerIdTest, IsFnv1aLittleEndian) {
  EXPECT_EQ(wire::ServerId("a"), std::string("\x8c\xec\x01\x86\x4c\xdc\x63\xaf", 8));       // af63dc4c8601ec8c
  EXPECT_EQ(wire::ServerId("foobar"), std::string("\xe8\x67\x39\xf7\x71\x41\x94\x85", 8));  // 85944171f73967e8
}

TEST(ServerNamesTest, OwnHandlesComeBack) {
  for (const char* own : {"", "kv-0:7171"}) {
    const ServerNames names(own, {});
    const std::string bytes = names.Encode(kHandle);
    EXPECT_EQ(bytes.substr(0, wire::kServerIdBytes), wire::ServerId(own));
    EXPECT_EQ(names.Decode(bytes).value(), kHandle);
  }
}

TEST(ServerNamesTest, PeersHandlesAreRedirected) {
  const ServerNames one("kv-1:7171", {"kv-0:7171", "kv-1:7171", "kv-2:7171"});
  const ServerNames two("kv-2:7171", {"kv-0:7171", "kv-1:7171", "kv-2:7171"});
  const absl::Status status = one.Decode(two.Encode(kHandle)).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(RedirectOf(status), "kv-2:7171");
  EXPECT_EQ(status.message().find("7171"), std::string::npos) << "errors carry no addresses in their text";
}

TEST(ServerNamesTest, WhatNobodyKnowsIsNotFound) {
  const ServerNames names("kv-1:7171", {"kv-0:7171"});
  const std::string stranger = ServerNames("kv-9:7171", {}).Encode(kHandle);
  const std::string peer = ServerNames("kv-0:7171", {}).Encode(kHandle);
  for (const std::string& bytes :
       {std::string(), stranger, ServerNames("", {}).Encode(kHandle), peer.substr(1), peer + "x", kHandle.Encode()}) {
    EXPECT_EQ(names.Decode(bytes).status(), NoSuchSequence());
  }
}

}  // namespace
}  // namespace tessera
