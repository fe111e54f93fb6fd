#include "tests/server/soak/caller.h"

#include <algorithm>
#include <iostream>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "tests/server/attend_messages.h"
#include "tests/server/raw_rpc.h"
#include "tests/server/stream_client.h"
#include "tests/server/test_server.h"

namespace tessera::testing {

using grpc::StatusCode;

Caller::Caller(std::shared_ptr<grpc::Channel> channel, uint64_t seed)
    : channel_(std::move(channel)), stub_(v1::AttentionService::NewStub(channel_)), rng_(seed) {}

int64_t Caller::Count(const std::string& outcome) const {
  const auto found = counts_.find(outcome);
  return found == counts_.end() ? 0 : found->second;
}

int64_t Caller::Step() {
  const uint64_t kind = rng_() % 100;
  if (kind < 50) return Unary();
  if (kind < 65) return Stream();
  if (kind < 75) return Cancelled();
  if (kind < 80) return Expired();
  if (kind < 90) return Invalid();
  if (kind < 95) return Malformed();
  return BrokenStream();
}

v1::AttendRequest Caller::RandomRequest() {
  constexpr std::array<v1::DataType, 3> kTypes = {v1::DATA_TYPE_FLOAT32, v1::DATA_TYPE_FLOAT16, v1::DATA_TYPE_BFLOAT16};
  std::vector<uint32_t> lengths(1 + rng_() % 3);
  for (uint32_t& length : lengths) length = static_cast<uint32_t>(rng_() % (rng_() % 8 == 0 ? 200 : 24));
  v1::AttendRequest request;
  v1::AttendHeader& header = *request.mutable_header();
  header = Header(lengths, static_cast<uint32_t>(1 + rng_() % 4), static_cast<uint32_t>(8 + 8 * (rng_() % 8)));
  header.set_dtype(kTypes[rng_() % kTypes.size()]);
  if (rng_() % 2 == 0) header.mutable_options()->mutable_mask()->set_kind(v1::MASK_KIND_CAUSAL);
  header.mutable_options()->set_return_lse(rng_() % 2 == 0);
  // Bytes of any value: infinities and NaNs are numbers, too.
  const auto fill = [this](size_t bytes) { return std::string(bytes, static_cast<char>(rng_())); };
  request.set_q(fill(QBytes(header)));
  request.set_k(fill(KvBytes(header)));
  request.set_v(fill(KvBytes(header)));
  return request;
}

int64_t Caller::Expect(const char* outcome, StatusCode code, std::initializer_list<StatusCode> allowed) {
  if (code == StatusCode::RESOURCE_EXHAUSTED) {
    ++counts_[kRefused];
    return 1;
  }
  if (std::find(allowed.begin(), allowed.end(), code) == allowed.end()) {
    std::cerr << "a call meant to be '" << outcome << "' ended with code " << code << "\n";
    return 0;
  }
  ++counts_[outcome];
  return 1;
}

int64_t Caller::Unary() {
  const v1::AttendRequest request = RandomRequest();
  UnaryCall call(*stub_, request, rng_() % 2 == 0 ? "one" : "two");
  const StatusCode code = call.Await().error_code();
  if (code == StatusCode::OK && call.response().o().size() != QBytes(request.header())) {
    std::cerr << "an answer of the wrong size\n";
    return 0;
  }
  return Expect("unary", code, {StatusCode::OK});
}

int64_t Caller::Cancelled() {
  UnaryCall call(*stub_, RandomRequest());
  // Sooner or later, so that it hits every station.
  for (uint64_t spins = rng_() % 20000; spins > 0 && !call.done(); --spins) {
  }
  call.Cancel();
  return Expect("cancelled", call.Await().error_code(), {StatusCode::CANCELLED, StatusCode::OK});
}

int64_t Caller::Expired() {
  UnaryCall call(*stub_, RandomRequest(), "", absl::Microseconds(static_cast<int64_t>(rng_() % 2000)));
  return Expect("expired", call.Await().error_code(), {StatusCode::DEADLINE_EXCEEDED, StatusCode::OK});
}

int64_t Caller::Invalid() {
  v1::AttendRequest request = RandomRequest();
  switch (rng_() % 4) {
    case 0:
      request.mutable_header()->set_head_dim(3);
      break;
    case 1:
      request.mutable_q()->push_back('x');
      break;
    case 2:
      request.mutable_header()->set_q_lengths(0, 0xffffffffu);
      break;
    default:
      request.clear_header();
  }
  UnaryCall call(*stub_, request);
  return Expect("invalid", call.Await().error_code(), {StatusCode::INVALID_ARGUMENT});
}

int64_t Caller::Malformed() {
  // 0x0b opens a group, which no message here has.
  std::string bytes(1 + rng_() % 4096, static_cast<char>(rng_()));
  bytes[0] = '\x0b';
  const char* method =
      rng_() % 2 == 0 ? "/tessera.v1.AttentionService/Attend" : "/tessera.v1.AttentionService/AttendStream";
  std::string response;
  return Expect("malformed", RawCall(channel_, method, bytes, &response).error_code(), {StatusCode::INVALID_ARGUMENT});
}

int64_t Caller::Stream() {
  const int64_t calls = 1 + static_cast<int64_t>(rng_() % 8);
  StreamClient stream(*stub_);
  for (int64_t id = 1; id <= calls; ++id) {
    stream.Send(StreamMessages(static_cast<uint64_t>(id), RandomRequest(), 256 + rng_() % 100000));
    if (rng_() % 8 == 0) stream.SendCancel(static_cast<uint64_t>(id));
  }
  stream.HalfClose();
  if (!stream.Finish().ok() || static_cast<int64_t>(stream.answers().size()) != calls) {
    std::cerr << "a stream did not answer all of its calls\n";
    return 0;
  }
  for (const auto& [id, answer] : stream.answers()) {
    const auto code = static_cast<StatusCode>(answer.status.code());
    const char* outcome = code == StatusCode::CANCELLED ? "cancelled" : "streamed";
    if (Expect(outcome, code, {StatusCode::OK, StatusCode::CANCELLED}) == 0) return 0;
  }
  return calls;
}

int64_t Caller::BrokenStream() {
  StreamClient stream(*stub_);
  const std::vector<v1::AttendStreamRequest> messages = StreamMessages(1, RandomRequest(), 1024);
  for (size_t i = 0; i < messages.size() && rng_() % 4 != 0; ++i) stream.Send(messages[i]);
  ++counts_["broken off"];
  return 1;
}

}  // namespace tessera::testing
