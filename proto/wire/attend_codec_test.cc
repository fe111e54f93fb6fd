// The codec against the generated protobuf classes, both ways.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "proto/wire/attend_decode.h"
#include "proto/wire/attend_encode.h"
#include "proto/wire/codec_test.h"
#include "proto/wire/fragments.h"

namespace tessera::wire {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;

class AttendCodecTest : public CodecTest {
 protected:
  v1::AttendHeader Header() {
    v1::AttendHeader header;
    header.set_dtype(static_cast<v1::DataType>(Below(4)));
    header.set_q_heads(static_cast<uint32_t>(Number()));
    header.set_kv_heads(static_cast<uint32_t>(Number()));
    header.set_head_dim(static_cast<uint32_t>(Below(300)));
    for (uint64_t i = Below(20); i > 0; --i) header.add_q_lengths(static_cast<uint32_t>(Number()));
    for (uint64_t i = Below(20); i > 0; --i) header.add_kv_lengths(static_cast<uint32_t>(Number()));
    if (Coin()) {
      v1::AttentionOptions& options = *header.mutable_options();
      if (Coin()) options.set_scale(0.5f);
      if (Coin()) options.mutable_mask()->set_window_left(static_cast<int64_t>(Number()) - 100);
      options.set_return_lse(Coin());
    }
    return header;
  }

  v1::AttendResult Result() {
    v1::AttendResult result;
    result.set_o_bytes(Number());
    result.set_lse_bytes(Number());
    result.mutable_timing()->set_queue_ns(Number());
    return result;
  }
};

constexpr int kRounds = 300;

TEST_F(AttendCodecTest, AttendRequest) {
  for (int round = 0; round < kRounds; ++round) {
    v1::AttendRequest head;
    if (Coin()) *head.mutable_header() = Header();
    v1::AttendRequest whole = head;
    whole.set_q(Bytes(2000));
    whole.set_k(Bytes(2000));
    whole.set_v(Bytes(200));
    const std::string bytes = whole.SerializeAsString();

    absl::StatusOr<DecodedAttendRequest> decoded = DecodeAttendRequest(Cut(bytes));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_EQ(decoded->header.has_value(), whole.has_header());
    if (decoded->header) {
      EXPECT_TRUE(MessageDifferencer::Equals(*decoded->header, whole.header()));
    }
    EXPECT_EQ(Copied(decoded->q), whole.q());
    EXPECT_EQ(Copied(decoded->k), whole.k());
    EXPECT_EQ(Copied(decoded->v), whole.v());

    EXPECT_EQ(Join(EncodeAttendRequest(head, Cut(whole.q()), Cut(whole.k()), Cut(whole.v()))), bytes);
  }
}

TEST_F(AttendCodecTest, AttendResponse) {
  for (int round = 0; round < kRounds; ++round) {
    v1::AttendResponse head;
    if (Coin()) *head.mutable_result() = Result();
    v1::AttendResponse whole = head;
    whole.set_o(Bytes(2000));
    whole.set_lse(Bytes(200));
    const std::string bytes = whole.SerializeAsString();

    absl::StatusOr<DecodedAttendResponse> decoded = DecodeAttendResponse(Cut(bytes));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_EQ(decoded->result.has_value(), whole.has_result());
    if (decoded->result) {
      EXPECT_TRUE(MessageDifferencer::Equals(*decoded->result, whole.result()));
    }
    EXPECT_EQ(Copied(decoded->o), whole.o());
    EXPECT_EQ(Copied(decoded->lse), whole.lse());

    EXPECT_EQ(Join(EncodeAttendResponse(head, Cut(whole.o()), Cut(whole.lse()))), bytes);
  }
}

TEST_F(AttendCodecTest, AttendStreamRequest) {
  for (int round = 0; round < kRounds; ++round) {
    v1::AttendStreamRequest head;
    if (Coin()) head.set_id(Number());
    if (Coin()) *head.mutable_header() = Header();
    if (Coin()) head.set_timeout_us(Number());
    if (Coin()) {
      head.mutable_stripe()->set_transfer(Bytes(16));
      head.mutable_stripe()->set_index(static_cast<uint32_t>(Number()));
    }
    head.set_cancel(Coin());
    if (Coin()) head.set_payload_offset(Number());
    v1::AttendStreamRequest whole = head;
    whole.set_payload(Bytes(3000));
    const std::string bytes = whole.SerializeAsString();

    absl::StatusOr<DecodedAttendStreamRequest> decoded = DecodeAttendStreamRequest(Cut(bytes));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->id, whole.id());
    ASSERT_EQ(decoded->header.has_value(), whole.has_header());
    if (decoded->header) {
      EXPECT_TRUE(MessageDifferencer::Equals(*decoded->header, whole.header()));
    }
    EXPECT_EQ(decoded->timeout_us, whole.timeout_us());
    ASSERT_EQ(decoded->stripe.has_value(), whole.has_stripe());
    if (decoded->stripe) {
      EXPECT_TRUE(MessageDifferencer::Equals(*decoded->stripe, whole.stripe()));
    }
    EXPECT_EQ(decoded->cancel, whole.cancel());
    EXPECT_EQ(decoded->payload_offset, whole.payload_offset());
    EXPECT_EQ(Copied(decoded->payload), whole.payload());

    EXPECT_EQ(Join(EncodeAttendStreamRequest(head, Cut(whole.payload()))), bytes);
  }
}

TEST_F(AttendCodecTest, AttendStreamResponse) {
  for (int round = 0; round < kRounds; ++round) {
    v1::AttendStreamResponse head;
    if (Coin()) head.set_id(Number());
    if (Coin()) *head.mutable_result() = Result();
    if (Coin()) {
      head.mutable_status()->set_code(static_cast<int>(Below(17)));
      head.mutable_status()->set_message("wörds");
    }
    if (Coin()) head.set_payload_offset(Number());
    v1::AttendStreamResponse whole = head;
    whole.set_payload(Bytes(3000));
    const std::string bytes = whole.SerializeAsString();

    absl::StatusOr<DecodedAttendStreamResponse> decoded = DecodeAttendStreamResponse(Cut(bytes));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->id, whole.id());
    ASSERT_EQ(decoded->result.has_value(), whole.has_result());
    if (decoded->result) {
      EXPECT_TRUE(MessageDifferencer::Equals(*decoded->result, whole.result()));
    }
    ASSERT_EQ(decoded->status.has_value(), whole.has_status());
    if (decoded->status) {
      EXPECT_TRUE(MessageDifferencer::Equals(*decoded->status, whole.status()));
    }
    EXPECT_EQ(decoded->payload_offset, whole.payload_offset());
    EXPECT_EQ(Copied(decoded->payload), whole.payload());

    EXPECT_EQ(Join(EncodeAttendStreamResponse(head, Cut(whole.payload()))), bytes);
  }
}

// Concatenated serializations are one message to protobuf: duplicates, and fields in any order.
TEST_F(AttendCodecTest, DuplicateFieldsCountAsProtobufSays) {
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes;
    for (uint64_t parts = 1 + Below(4); parts > 0; --parts) {
      v1::AttendStreamRequest part;
      if (Coin()) part.set_payload(Bytes(100));
      if (Coin()) part.set_id(Number());
      if (Coin()) *part.mutable_header() = Header();
      bytes += part.SerializeAsString();
    }
    v1::AttendStreamRequest expected;
    ASSERT_TRUE(expected.ParseFromString(bytes));
    absl::StatusOr<DecodedAttendStreamRequest> decoded = DecodeAttendStreamRequest(Cut(bytes));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->id, expected.id());
    EXPECT_EQ(Copied(decoded->payload), expected.payload());
    ASSERT_EQ(decoded->header.has_value(), expected.has_header());
    if (decoded->header) {
      EXPECT_TRUE(MessageDifferencer::Equals(*decoded->header, expected.header()));
    }
  }
}

TEST_F(AttendCodecTest, UnknownFieldsArePassedOver) {
  v1::AttendStreamRequest message;
  message.set_id(7);
  message.set_payload("payload");
  auto& unknown = *message.GetReflection()->MutableUnknownFields(&message);
  unknown.AddVarint(100, ~uint64_t{0});
  unknown.AddFixed32(101, 1);
  unknown.AddFixed64(102, 1);
  unknown.AddLengthDelimited(12, std::string(300, 'u'));
  absl::StatusOr<DecodedAttendStreamRequest> decoded = DecodeAttendStreamRequest(Cut(message.SerializeAsString()));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->id, 7u);
  EXPECT_EQ(Copied(decoded->payload), "payload");
}

TEST_F(AttendCodecTest, EveryTruncationThatCutsAFieldIsRefused) {
  v1::AttendRequest message;
  *message.mutable_header() = Header();
  message.mutable_header()->set_q_heads(1);
  message.set_q("qqqq");
  message.set_k("kk");
  message.set_v("v");
  const std::string bytes = message.SerializeAsString();
  for (size_t length = 0; length < bytes.size(); ++length) {
    const std::string part = bytes.substr(0, length);
    const bool expected = v1::AttendRequest().ParseFromString(part);
    EXPECT_EQ(DecodeAttendRequest(Cut(part)).ok(), expected) << "at " << length << " of " << bytes.size();
  }
}

TEST_F(AttendCodecTest, RefusesKnownFieldsOfTheWrongType) {
  const std::string varint_for_payload("\x78\x01", 2);
  const std::string bytes_for_id("\x0a\x00", 2);
  const std::string varint_for_header("\x10\x01", 2);
  for (const std::string& bytes : {varint_for_payload, bytes_for_id, varint_for_header}) {
    const absl::Status status = DecodeAttendStreamRequest(Cut(bytes)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("wire type"));
  }
}

TEST_F(AttendCodecTest, AnEmptyBufferIsAnEmptyMessage) {
  absl::StatusOr<DecodedAttendRequest> decoded = DecodeAttendRequest(grpc::ByteBuffer());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_FALSE(decoded->header.has_value());
  EXPECT_TRUE(decoded->q.empty());
  EXPECT_EQ(EncodeAttendRequest({}, {}, {}, {}).Length(), 0u);
}

TEST_F(AttendCodecTest, PayloadIsAliasedOnTheWayOutAndOnTheWayIn) {
  const std::vector<std::byte> memory(1 << 16, std::byte{7});
  auto owner = std::make_shared<int>(0);
  const uint64_t copied_before = PayloadBytesCopied();
  {
    v1::AttendStreamRequest head;
    head.set_id(1);
    const grpc::Slice payload = AliasSlice(memory, owner);
    const grpc::ByteBuffer buffer = EncodeAttendStreamRequest(head, absl::MakeConstSpan(&payload, 1));
    absl::StatusOr<DecodedAttendStreamRequest> decoded = DecodeAttendStreamRequest(buffer);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    const DecodedAttendStreamRequest moved = *std::move(decoded);
    ASSERT_EQ(moved.payload.ranges().size(), 1u);
    EXPECT_EQ(static_cast<const void*>(moved.payload.ranges()[0].data()), memory.data());
    EXPECT_GT(owner.use_count(), 1);
  }
  EXPECT_EQ(owner.use_count(), 1) << "the slice must let go of its owner";
  EXPECT_EQ(PayloadBytesCopied(), copied_before);
}

}  // namespace
}  // namespace tessera::wire
