// For tests: a call that owns its tensors.
#ifndef TESSERA_CLIENT_CPP_TESSERA_CLIENT_TEST_CALL_H_
#define TESSERA_CLIENT_CPP_TESSERA_CLIENT_TEST_CALL_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "absl/types/span.h"
#include "client/cpp/tessera/attend_call.h"
#include "client/cpp/tessera/fake_server.h"
#include "gtest/gtest.h"

namespace tessera {

// A call with its tensors, filled from a seed; the outputs are poisoned.
class TestCall {
 public:
  // Tensors of `tokens` x 2 heads x 8 elements of 2 bytes: 32 bytes a token for each of q and o, and as much for k, v
  // with `kv_tokens`.
  TestCall(uint32_t tokens, uint32_t kv_tokens, bool return_lse, uint64_t seed)
      : q_(Random(tokens * 32, seed)),
        k_(Random(kv_tokens * 32, seed + 1)),
        v_(Random(kv_tokens * 32, seed + 2)),
        o_(q_.size(), '\xa5'),
        lse_(return_lse ? tokens * 2 * sizeof(float) : 0, '\xa5') {
    call_.header.set_dtype(v1::DATA_TYPE_BFLOAT16);
    call_.header.set_q_heads(2);
    call_.header.set_kv_heads(2);
    call_.header.set_head_dim(8);
    call_.header.add_q_lengths(tokens);
    call_.header.add_kv_lengths(kv_tokens);
    call_.header.mutable_options()->set_return_lse(return_lse);
    call_.q = In(q_);
    call_.k = In(k_);
    call_.v = In(v_);
    call_.o = Out(o_);
    call_.lse = Out(lse_);
  }

  AttendCall& call() { return call_; }

  void ExpectAnswered() const {
    const auto [o, lse] = FakeServer::Expected(call_.header, q_ + k_ + v_);
    EXPECT_TRUE(o == o_) << "o of " << o.size() << " bytes differs";
    EXPECT_TRUE(lse == lse_) << "LSE of " << lse.size() << " bytes differs";
  }

 private:
  static std::string Random(size_t size, uint64_t seed) {
    std::mt19937_64 rng(seed);
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(rng());
    return bytes;
  }
  static absl::Span<const std::byte> In(const std::string& bytes) {
    return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
  }
  static absl::Span<std::byte> Out(std::string& bytes) {
    return {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
  }

  std::string q_, k_, v_, o_, lse_;
  AttendCall call_;
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_TESSERA_CLIENT_TEST_CALL_H_
