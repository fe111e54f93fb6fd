// Taking one stream message apart and copying its payload out once, and putting one together, beside protobuf's own
// classes on the same bytes. Time is per message; bytes/s counts payload.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "proto/wire/attend_decode.h"
#include "proto/wire/attend_encode.h"
#include "tessera/v1/attention.grpc.pb.h"

namespace tessera::wire {
namespace {

// gRPC 1.51 reads from a socket into slices of about this size.
constexpr size_t kReceiveSliceBytes = 8192;

v1::AttendStreamRequest Head() {
  v1::AttendStreamRequest head;
  head.set_id(12345);
  v1::AttendHeader& header = *head.mutable_header();
  header.set_dtype(v1::DATA_TYPE_BFLOAT16);
  header.set_q_heads(16);
  header.set_kv_heads(16);
  header.set_head_dim(128);
  header.add_q_lengths(16);
  return head;
}

std::vector<grpc::Slice> Received(const std::string& bytes) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += kReceiveSliceBytes) {
    slices.emplace_back(bytes.data() + at, std::min(kReceiveSliceBytes, bytes.size() - at));
  }
  return slices;
}

std::string Encoded(size_t payload_bytes) {
  v1::AttendStreamRequest message = Head();
  message.set_payload(std::string(payload_bytes, 'x'));
  return message.SerializeAsString();
}

void BM_DecodeAndCopyOut(benchmark::State& state) {
  const size_t payload_bytes = static_cast<size_t>(state.range(0));
  const std::vector<grpc::Slice> slices = Received(Encoded(payload_bytes));
  const grpc::ByteBuffer buffer(slices.data(), slices.size());
  std::vector<std::byte> staging(payload_bytes);
  for (auto _ : state) {
    auto decoded = DecodeAttendStreamRequest(buffer);
    decoded->payload.CopyTo(staging.data());
    benchmark::DoNotOptimize(staging.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void BM_ProtobufParseAndCopyOut(benchmark::State& state) {
  const size_t payload_bytes = static_cast<size_t>(state.range(0));
  const std::vector<grpc::Slice> slices = Received(Encoded(payload_bytes));
  std::vector<std::byte> staging(payload_bytes);
  for (auto _ : state) {
    grpc::ByteBuffer buffer(slices.data(), slices.size());
    v1::AttendStreamRequest message;
    if (!grpc::SerializationTraits<v1::AttendStreamRequest>::Deserialize(&buffer, &message).ok()) {
      state.SkipWithError("protobuf refused the message");
      break;
    }
    std::memcpy(staging.data(), message.payload().data(), payload_bytes);
    benchmark::DoNotOptimize(staging.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void BM_Encode(benchmark::State& state) {
  const std::vector<std::byte> memory(static_cast<size_t>(state.range(0)));
  const auto owner = std::make_shared<int>(0);
  const v1::AttendStreamRequest head = Head();
  for (auto _ : state) {
    const grpc::Slice payload = AliasSlice(memory, owner);
    benchmark::DoNotOptimize(EncodeAttendStreamRequest(head, absl::MakeConstSpan(&payload, 1)));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void BM_ProtobufSerialize(benchmark::State& state) {
  const std::string memory(static_cast<size_t>(state.range(0)), 'x');
  for (auto _ : state) {
    v1::AttendStreamRequest message = Head();
    message.set_payload(memory);
    grpc::ByteBuffer buffer;
    bool own_buffer = false;
    grpc::SerializationTraits<v1::AttendStreamRequest>::Serialize(message, &buffer, &own_buffer);
    benchmark::DoNotOptimize(buffer);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

BENCHMARK(BM_DecodeAndCopyOut)->Arg(16 << 10)->Arg(256 << 10)->Arg(1 << 20);
BENCHMARK(BM_ProtobufParseAndCopyOut)->Arg(16 << 10)->Arg(256 << 10)->Arg(1 << 20);
BENCHMARK(BM_Encode)->Arg(16 << 10)->Arg(256 << 10)->Arg(1 << 20);
BENCHMARK(BM_ProtobufSerialize)->Arg(16 << 10)->Arg(256 << 10)->Arg(1 << 20);

}  // namespace
}  // namespace tessera::wire

BENCHMARK_MAIN();
