// The messages of SequenceService that carry tensors against the generated protobuf classes, both ways.
#include <cstdint>
#include <string>

#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "proto/wire/attend_decode.h"
#include "proto/wire/attend_encode.h"
#include "proto/wire/codec_test.h"
#include "proto/wire/fragments.h"

namespace tessera::wire {
namespace {

using ::google::protobuf::util::MessageDifferencer;

constexpr int kRounds = 300;

class ExtendCodecTest : public CodecTest {
 protected:
  v1::ExtendHeader Header() {
    v1::ExtendHeader header;
    header.set_q_heads(static_cast<uint32_t>(Number()));
    for (uint64_t i = Below(20); i > 0; --i) {
      v1::ExtendEntry& entry = *header.add_entries();
      entry.set_sequence(Bytes(24));
      entry.set_layer(static_cast<uint32_t>(Number()));
      entry.set_q_tokens(static_cast<uint32_t>(Number()));
      entry.set_append_tokens(static_cast<uint32_t>(Number()));
    }
    if (Coin()) header.mutable_options()->set_return_lse(Coin());
    return header;
  }

  v1::ExtendResult Result() {
    v1::ExtendResult result;
    for (uint64_t i = Below(20); i > 0; --i) result.add_lengths(Number());
    result.mutable_timing()->set_queue_ns(Number());
    return result;
  }

  // What Extend and ExtendStream have in common.
  template <typename Message>
  void ExpectRequest(const DecodedExtendRequest& decoded, const Message& whole) {
    ASSERT_EQ(decoded.header.has_value(), whole.has_header());
    if (decoded.header) {
      EXPECT_TRUE(MessageDifferencer::Equals(*decoded.header, whole.header()));
    }
    EXPECT_EQ(Copied(decoded.q), whole.q());
    EXPECT_EQ(Copied(decoded.k), whole.k());
    EXPECT_EQ(Copied(decoded.v), whole.v());
  }
  template <typename Message>
  void ExpectResponse(const DecodedExtendResponse& decoded, const Message& whole) {
    ASSERT_EQ(decoded.result.has_value(), whole.has_result());
    if (decoded.result) {
      EXPECT_TRUE(MessageDifferencer::Equals(*decoded.result, whole.result()));
    }
    EXPECT_EQ(Copied(decoded.o), whole.o());
    EXPECT_EQ(Copied(decoded.lse), whole.lse());
  }

  template <typename Message>
  void FillRequest(Message* whole) {
    whole->set_q(Bytes(2000));
    whole->set_k(Bytes(500));
    whole->set_v(Bytes(500));
  }
  template <typename Message>
  void FillResponse(Message* whole) {
    whole->set_o(Bytes(2000));
    whole->set_lse(Bytes(200));
  }
};

TEST_F(ExtendCodecTest, ExtendRequest) {
  for (int round = 0; round < kRounds; ++round) {
    v1::ExtendRequest head;
    if (Coin()) *head.mutable_header() = Header();
    v1::ExtendRequest whole = head;
    FillRequest(&whole);
    const std::string bytes = whole.SerializeAsString();
    const absl::StatusOr<DecodedExtendRequest> decoded = DecodeExtendRequest(Cut(bytes));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ExpectRequest(*decoded, whole);
    EXPECT_EQ(Join(EncodeExtendRequest(head, Cut(whole.q()), Cut(whole.k()), Cut(whole.v()))), bytes);
  }
}

TEST_F(ExtendCodecTest, ExtendStreamRequest) {
  for (int round = 0; round < kRounds; ++round) {
    v1::ExtendStreamRequest head;
    if (Coin()) head.set_id(Number());
    if (Coin()) *head.mutable_header() = Header();
    if (Coin()) head.set_timeout_us(Number());
    head.set_cancel(Coin());
    v1::ExtendStreamRequest whole = head;
    FillRequest(&whole);
    const std::string bytes = whole.SerializeAsString();
    const absl::StatusOr<DecodedExtendStreamRequest> decoded = DecodeExtendStreamRequest(Cut(bytes));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ExpectRequest(*decoded, whole);
    EXPECT_EQ(decoded->id, whole.id());
    EXPECT_EQ(decoded->timeout_us, whole.timeout_us());
    EXPECT_EQ(decoded->cancel, whole.cancel());
    EXPECT_EQ(Join(EncodeExtendStreamRequest(head, Cut(whole.q()), Cut(whole.k()), Cut(whole.v()))), bytes);
  }
}

TEST_F(ExtendCodecTest, ExtendResponse) {
  for (int round = 0; round < kRounds; ++round) {
    v1::ExtendResponse head;
    if (Coin()) *head.mutable_result() = Result();
    v1::ExtendResponse whole = head;
    FillResponse(&whole);
    const std::string bytes = whole.SerializeAsString();
    const absl::StatusOr<DecodedExtendResponse> decoded = DecodeExtendResponse(Cut(bytes));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ExpectResponse(*decoded, whole);
    EXPECT_EQ(Join(EncodeExtendResponse(head, Cut(whole.o()), Cut(whole.lse()))), bytes);
  }
}

TEST_F(ExtendCodecTest, ExtendStreamResponse) {
  for (int round = 0; round < kRounds; ++round) {
    v1::ExtendStreamResponse head;
    if (Coin()) head.set_id(Number());
    if (Coin()) *head.mutable_result() = Result();
    if (Coin()) {
      head.mutable_status()->set_code(static_cast<int>(Below(17)));
      head.mutable_status()->set_retry_after_ms(static_cast<uint32_t>(Number()));
    }
    v1::ExtendStreamResponse whole = head;
    FillResponse(&whole);
    const std::string bytes = whole.SerializeAsString();
    const absl::StatusOr<DecodedExtendStreamResponse> decoded = DecodeExtendStreamResponse(Cut(bytes));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ExpectResponse(*decoded, whole);
    EXPECT_EQ(decoded->id, whole.id());
    ASSERT_EQ(decoded->status.has_value(), whole.has_status());
    if (decoded->status) {
      EXPECT_TRUE(MessageDifferencer::Equals(*decoded->status, whole.status()));
    }
    EXPECT_EQ(Join(EncodeExtendStreamResponse(head, Cut(whole.o()), Cut(whole.lse()))), bytes);
  }
}

}  // namespace
}  // namespace tessera::wire
