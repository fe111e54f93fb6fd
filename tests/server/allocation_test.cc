// A 64 MiB request costs the server no second 64 MiB: its bytes are copied once, into staging memory that was taken at
// start, and the answer leaves from there.
//
// The server is a process of its own whose malloc is watched. Staging memory is mapped, so it is not in these counts.
#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "tests/server/attend_messages.h"
#include "tests/server/heap/heap_file.h"
#include "tests/server/metrics_reader.h"
#include "tests/server/server_process.h"
#include "tests/server/stream_client.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kPayload = 64 * kMiB;
constexpr char kCopied[] = "tessera_copied_bytes_total{direction=\"receive\"}";

// 128 sequences, 16 query rows over 24 keys each: 16 MiB of q and o, 24 MiB of k and v, and little to compute.
v1::AttendHeader LargeHeader() {
  v1::AttendHeader header = Header(std::vector<uint32_t>(128, 16), 16, 128);
  for (int i = 0; i < 128; ++i) header.add_kv_lengths(24);
  return header;
}

// Constant bytes: cheap to make, and as long as real ones.
v1::AttendRequest LargeRequest() {
  v1::AttendRequest request;
  *request.mutable_header() = LargeHeader();
  request.set_q(std::string(QBytes(request.header()), '\0'));
  request.set_k(std::string(KvBytes(request.header()), '\0'));
  request.set_v(std::string(KvBytes(request.header()), '\0'));
  return request;
}

class AllocationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(process_.serving());
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    stub_ = v1::AttentionService::NewStub(
        grpc::CreateCustomChannel(process_.target(), grpc::InsecureChannelCredentials(), arguments));
    ASSERT_EQ(static_cast<int64_t>(Payload(request_).size()), kPayload);
    // Threads, connections and kernel scratch are there before the counting starts.
    std::mt19937_64 rng(1);
    UnaryCall warm_up(*stub_, Request(Header({16}, 16, 128), rng));
    ASSERT_TRUE(warm_up.Await().ok());
    copied_before_ = MetricsReader::Scrape(process_.metrics_port())[kCopied];
    before_ = heap_.StartOver();
  }

  int64_t PeakGrowth() { return heap_.counts().peak - before_; }
  int64_t Copied() const {
    return static_cast<int64_t>(MetricsReader::Scrape(process_.metrics_port())[kCopied] - copied_before_);
  }
  void Report(const char* how) {
    std::cout << how << ": " << kPayload / kMiB << " MiB of payload, " << Copied() << " bytes copied; heap grew by "
              << PeakGrowth() / 1024 << " KiB at its peak, largest allocation " << heap_.counts().largest / 1024
              << " KiB\n";
  }

  HeapFile heap_;
  ServerProcess process_{
      TESSERA_SERVER,
      {"--staging-bytes=128MiB", "--max-message-bytes=80MiB", "--transport-bytes=8GiB", "--backend=cpu"},
      heap_.Environment(TESSERA_HEAP_WATCH)};
  std::unique_ptr<v1::AttentionService::Stub> stub_;
  const v1::AttendRequest request_ = LargeRequest();
  double copied_before_ = 0;
  int64_t before_ = 0;
};

TEST_F(AllocationTest, StreamedRequestAllocatesAFewChunks) {
  StreamClient stream(*stub_);
  stream.Send(StreamMessages(1, request_, kMiB));
  const StreamedAnswer answer = stream.Await(1);
  ASSERT_EQ(answer.status.code(), 0) << answer.status.message();
  ASSERT_EQ(answer.payload.size(), QBytes(request_.header()));
  Report("stream");
  EXPECT_EQ(Copied(), kPayload);
  EXPECT_LT(PeakGrowth(), kPayload / 2);
  EXPECT_LT(heap_.counts().largest, 4 * kMiB);
}

TEST_F(AllocationTest, UnaryRequestAllocatesItsMessageAndNothingMore) {
  UnaryCall call(*stub_, request_);
  ASSERT_TRUE(call.Await().ok()) << call.Await().error_message();
  ASSERT_EQ(call.response().o().size(), QBytes(request_.header()));
  Report("unary");
  EXPECT_EQ(Copied(), kPayload);
  // gRPC holds a unary message whole, in slices, until it is handed over; a second copy would make it twice as much.
  EXPECT_LT(PeakGrowth(), kPayload + kPayload / 2);
  EXPECT_LT(heap_.counts().largest, 16 * kMiB) << "some tensor lies in one piece";
}

}  // namespace
}  // namespace tessera::testing
