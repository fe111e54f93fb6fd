#include "client/cpp/load/echo_message.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "grpcpp/support/slice.h"

namespace tessera::load {
namespace {

grpc::Slice HeaderSlice(const EchoHeader& header) {
  uint8_t bytes[kEchoHeaderBytes];
  std::memcpy(bytes, &header.id, 8);
  std::memcpy(bytes + 8, &header.answer_bytes, 8);
  return grpc::Slice(bytes, sizeof(bytes));
}

grpc::Slice ZeroSlice(size_t bytes) {
  static const std::byte zeros[kEchoChunkBytes] = {};
  return grpc::Slice(zeros, std::min(bytes, sizeof(zeros)), grpc::Slice::STATIC_SLICE);
}

// Hands out the bytes of a message piece by piece, then zeros.
class SliceSource {
 public:
  explicit SliceSource(const grpc::ByteBuffer& message) {
    // Dump cannot fail on an uncompressed message; on any other the answer is all zeros.
    if (!message.Dump(&slices_).ok()) slices_.clear();
  }

  // A slice of at least 1 and at most `limit` bytes. REQUIRES: limit > 0.
  grpc::Slice Next(size_t limit) {
    while (index_ < slices_.size() && offset_ == slices_[index_].size()) {
      ++index_;
      offset_ = 0;
    }
    if (index_ == slices_.size()) return ZeroSlice(limit);
    const size_t end = std::min(slices_[index_].size(), offset_ + limit);
    return slices_[index_].sub(std::exchange(offset_, end), end);
  }

 private:
  std::vector<grpc::Slice> slices_;
  size_t index_ = 0;
  size_t offset_ = 0;
};

}  // namespace

grpc::ByteBuffer EchoRequest(const EchoHeader& header, absl::Span<const std::byte> payload) {
  const grpc::Slice slices[] = {HeaderSlice(header),
                                grpc::Slice(payload.data(), payload.size(), grpc::Slice::STATIC_SLICE)};
  return grpc::ByteBuffer(slices, payload.empty() ? 1 : 2);
}

std::optional<EchoHeader> ReadEchoHeader(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  if (message.Length() < kEchoHeaderBytes || !message.Dump(&slices).ok()) return std::nullopt;
  uint8_t bytes[kEchoHeaderBytes];
  size_t have = 0;
  for (const grpc::Slice& slice : slices) {
    const size_t take = std::min(slice.size(), kEchoHeaderBytes - have);
    std::memcpy(bytes + have, slice.begin(), take);
    have += take;
    if (have == kEchoHeaderBytes) break;
  }
  EchoHeader header;
  std::memcpy(&header.id, bytes, 8);
  std::memcpy(&header.answer_bytes, bytes + 8, 8);
  if (header.answer_bytes > kMaxEchoAnswerBytes && header.answer_bytes != kEchoMoreToCome) return std::nullopt;
  return header;
}

size_t EchoPayloadBytes(const grpc::ByteBuffer& message) { return message.Length() - kEchoHeaderBytes; }

std::vector<grpc::ByteBuffer> EchoAnswer(const EchoHeader& header, const grpc::ByteBuffer& request,
                                         size_t max_payload) {
  std::vector<grpc::ByteBuffer> messages;
  SliceSource source(request);
  uint64_t left = header.answer_bytes;
  do {
    std::vector<grpc::Slice> slices = {HeaderSlice({header.id, 0})};
    size_t room = std::min<uint64_t>(left, max_payload);
    left -= room;
    while (room > 0) {
      slices.push_back(source.Next(room));
      room -= slices.back().size();
    }
    messages.emplace_back(slices.data(), slices.size());
  } while (left > 0);
  return messages;
}

}  // namespace tessera::load
