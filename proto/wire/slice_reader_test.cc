#include "proto/wire/slice_reader.h"

#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "google/protobuf/io/coded_stream.h"
#include "gtest/gtest.h"
#include "proto/wire/fragments.h"
#include "tessera/v1/attention.pb.h"

namespace tessera::wire {
namespace {

using ::testing::HasSubstr;

// One slice for each byte, the hardest case.
std::vector<grpc::Slice> OneByteSlices(const std::string& bytes) {
  std::vector<grpc::Slice> slices;
  for (const char& byte : bytes) slices.emplace_back(&byte, 1);
  return slices;
}

std::string Varint(uint64_t value) {
  uint8_t buffer[10];
  uint8_t* const end = google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(value, buffer);
  return std::string(buffer, end);
}

TEST(SliceReaderTest, ReadsVarintsOfEveryLength) {
  for (int bits = 0; bits <= 64; ++bits) {
    const uint64_t value = bits == 64 ? std::numeric_limits<uint64_t>::max() : (uint64_t{1} << bits) - (bits % 2);
    const std::vector<grpc::Slice> slices = OneByteSlices(Varint(value));
    SliceReader reader(slices);
    absl::StatusOr<uint64_t> read = reader.ReadVarint();
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, value);
    EXPECT_TRUE(reader.done());
  }
}

TEST(SliceReaderTest, RefusesTruncatedAndOverlongVarints) {
  for (const std::string& bytes : {std::string(), std::string("\x80"), std::string(9, '\xff')}) {
    const std::vector<grpc::Slice> slices = OneByteSlices(bytes);
    SliceReader reader(slices);
    EXPECT_THAT(reader.ReadVarint().status().message(), HasSubstr("ends within a field"))
        << absl::BytesToHexString(bytes);
  }
  const std::vector<grpc::Slice> slices = OneByteSlices(std::string(11, '\x80'));
  SliceReader reader(slices);
  EXPECT_THAT(reader.ReadVarint().status().message(), HasSubstr("longer than 10 bytes"));
}

TEST(SliceReaderTest, ReadsTags) {
  const std::vector<grpc::Slice> slices = OneByteSlices("\x08\x7a\xf9\xff\xff\xff\x0f\x0d");
  SliceReader reader(slices);
  const std::vector<Tag> expected = {{1, WireType::kVarint},
                                     {15, WireType::kLengthDelimited},
                                     {(1u << 29) - 1, WireType::kFixed64},
                                     {1, WireType::kFixed32}};
  for (const Tag& tag : expected) {
    absl::StatusOr<Tag> read = reader.ReadTag();
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->field, tag.field);
    EXPECT_EQ(read->type, tag.type);
  }
  EXPECT_TRUE(reader.done());
}

TEST(SliceReaderTest, RefusesBadTags) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {std::string("\x00", 1), "field number 0"},
      {"\x02", "field number 0"},
      {"\x0b", "groups"},
      {"\x0c", "groups"},
      {"\x0e", "wire type 6"},
      {"\x0f", "wire type 7"},
      {"\x88", "ends within a field"},
      {"\x88\x80\x80\x80\x80\x01", "longer than 5 bytes"},
  };
  for (const auto& [bytes, message] : cases) {
    const std::vector<grpc::Slice> slices = OneByteSlices(bytes);
    SliceReader reader(slices);
    const absl::Status status = reader.ReadTag().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(message)) << absl::BytesToHexString(bytes);
  }
}

TEST(SliceReaderTest, PayloadPointsIntoTheSlices) {
  const std::string text(1000, 'x');
  std::vector<grpc::Slice> slices;
  slices.emplace_back(Varint(1500) + std::string(500, 'a'));
  slices.emplace_back();
  slices.emplace_back(text);
  slices.emplace_back("tail");
  SliceReader reader(slices);
  PayloadRef payload;
  ASSERT_TRUE(reader.ReadPayload(&payload).ok());
  ASSERT_EQ(payload.size(), 1500u);
  ASSERT_EQ(payload.ranges().size(), 2u);
  EXPECT_EQ(payload.ranges()[0].data(), slices[0].begin() + 2);
  EXPECT_EQ(payload.ranges()[1].data(), slices[2].begin());
  EXPECT_EQ(payload.ranges()[1].size(), 1000u);
  EXPECT_FALSE(reader.done());
}

TEST(SliceReaderTest, RefusesLengthsBeyondTheEnd) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {Varint(4) + "abc", "ends within a field"},
      {Varint(1), "ends within a field"},
      {Varint(uint64_t{1} << 31) + "abc", "2 GiB"},
      {Varint((uint64_t{1} << 31) - 16) + "abc", "2 GiB"},
      {Varint(std::numeric_limits<uint64_t>::max()) + "abc", "longer than 5 bytes"},
  };
  for (const auto& [bytes, message] : cases) {
    const std::vector<grpc::Slice> slices = OneByteSlices(bytes);
    SliceReader reader(slices);
    PayloadRef payload;
    EXPECT_THAT(reader.ReadPayload(&payload).message(), HasSubstr(message)) << absl::BytesToHexString(bytes);
  }
}

TEST(SliceReaderTest, SkipsEveryType) {
  const std::string bytes = Varint(300) + "12345678" + "1234" + Varint(3) + "abc" + "z";
  const std::vector<grpc::Slice> slices = OneByteSlices(bytes);
  SliceReader reader(slices);
  for (WireType type : {WireType::kVarint, WireType::kFixed64, WireType::kFixed32, WireType::kLengthDelimited}) {
    ASSERT_TRUE(reader.Skip({1, type}).ok());
  }
  EXPECT_FALSE(reader.done());
  EXPECT_EQ(*reader.ReadVarint(), uint64_t{'z'});
  EXPECT_TRUE(reader.done());
}

TEST(SliceReaderTest, RefusesToSkipBeyondTheEnd) {
  for (WireType type : {WireType::kVarint, WireType::kFixed64, WireType::kFixed32, WireType::kLengthDelimited}) {
    const std::vector<grpc::Slice> slices = OneByteSlices("\x83\x83\x83");
    SliceReader reader(slices);
    EXPECT_THAT(reader.Skip({1, type}).message(), HasSubstr("ends within a field")) << static_cast<int>(type);
  }
}

TEST(SliceReaderTest, MergesASubmessageThatComesInPieces) {
  v1::Stripe first, second;
  first.set_transfer("0123456789abcdef");
  first.set_count(4);
  second.set_index(3);
  second.set_count(5);
  const std::string bytes = Varint(first.ByteSizeLong()) + first.SerializeAsString() + Varint(second.ByteSizeLong()) +
                            second.SerializeAsString();
  const std::vector<grpc::Slice> slices = OneByteSlices(bytes);
  SliceReader reader(slices);
  v1::Stripe merged;
  ASSERT_TRUE(reader.MergeSubmessage(&merged).ok());
  ASSERT_TRUE(reader.MergeSubmessage(&merged).ok());
  EXPECT_TRUE(reader.done());
  EXPECT_EQ(merged.transfer(), "0123456789abcdef");
  EXPECT_EQ(merged.index(), 3u);
  EXPECT_EQ(merged.count(), 5u);
}

TEST(SliceReaderTest, RefusesSubmessagesThatAreBrokenOrTogetherTooLarge) {
  {
    const std::vector<grpc::Slice> slices = OneByteSlices(std::string("\x02\x0a\x05", 3));
    SliceReader reader(slices);
    v1::Stripe stripe;
    EXPECT_THAT(reader.MergeSubmessage(&stripe).message(), HasSubstr("tessera.v1.Stripe"));
  }
  v1::AttendHeader header;
  header.mutable_q_lengths()->Resize(600 << 10, 1);  // one byte each
  const std::string part = Varint(header.ByteSizeLong()) + header.SerializeAsString();
  std::mt19937_64 rng(1);
  const std::vector<grpc::Slice> slices = Fragment(part + part, 10000, rng);
  SliceReader reader(slices);
  v1::AttendHeader merged;
  EXPECT_TRUE(reader.MergeSubmessage(&merged).ok());
  EXPECT_THAT(reader.MergeSubmessage(&merged).message(), HasSubstr("limit of 1048576 bytes"));
}

}  // namespace
}  // namespace tessera::wire
