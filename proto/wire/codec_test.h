// For tests: what random messages are made of, and are cut into.
#ifndef TESSERA_PROTO_WIRE_CODEC_TEST_H_
#define TESSERA_PROTO_WIRE_CODEC_TEST_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "grpcpp/support/slice.h"
#include "gtest/gtest.h"
#include "proto/wire/fragments.h"
#include "proto/wire/payload_ref.h"
#include "tests/random/seed.h"

namespace tessera::wire {

class CodecTest : public ::testing::Test {
 protected:
  uint64_t Below(uint64_t bound) { return std::uniform_int_distribution<uint64_t>(0, bound - 1)(rng_); }
  bool Coin() { return Below(2) == 0; }
  // Of any size, small ones as often as large ones.
  uint64_t Number() { return rng_() >> Below(64); }

  std::string Bytes(size_t most) {
    std::string bytes(Below(most + 1), '\0');
    for (char& byte : bytes) byte = static_cast<char>(rng_());
    return bytes;
  }

  // As the network might deliver it: now and then byte by byte.
  std::vector<grpc::Slice> Cut(const std::string& bytes) {
    const size_t largest[] = {1, 3, 50, 5000, bytes.size() + 1};
    return Fragment(bytes, largest[Below(std::size(largest))], rng_);
  }

  static std::string Copied(const PayloadRef& payload) {
    std::string copy(payload.size(), '#');
    payload.CopyTo(reinterpret_cast<std::byte*>(copy.data()));
    return copy;
  }

 private:
  std::mt19937_64 rng_{tessera::RandomSeed()};
};

}  // namespace tessera::wire

#endif  // TESSERA_PROTO_WIRE_CODEC_TEST_H_
