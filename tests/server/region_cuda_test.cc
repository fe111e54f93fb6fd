// Regions of a server with GPUs, which are not there: a client's own GPU memory, and shared memory that GPUs copy from.
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/gpu_backend.h"
#include "server/device/cuda/cuda_device.h"
#include "server/device/cuda/pinned_region.h"
#include "server/device/cuda/testing/fake_cuda_calls.h"
#include "tests/server/attend_messages.h"
#include "tests/server/await.h"
#include "tests/server/region_client.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

using Code = grpc::StatusCode;

constexpr int kGpus = 2;

// The CPU's kernel on a fake GPU's stream.
class FakeGpuBackend final : public cuda::GpuBackend {
 public:
  explicit FakeGpuBackend(FakeCudaCalls* calls) : calls_(calls), cpu_(MakeCpuBackend(1)) {}
  absl::string_view name() const override { return "sm90a"; }
  absl::StatusOr<int64_t> PeakScratchBytes() const override { return 0; }
  absl::StatusOr<int64_t> ReservedScratchBytes() const override { return 0; }
  absl::Status Forward(const AttentionParams& params, absl::Span<const SequenceView> sequences, StreamHandle stream,
                       ForwardStats* stats) override {
    *stats = {};
    const std::vector<SequenceView> views(sequences.begin(), sequences.end());
    calls_->Launch(stream, absl::Milliseconds(1), [this, params, views] {
      ForwardStats ignored;
      ABSL_RAW_CHECK(cpu_->Forward(params, views, nullptr, &ignored).ok(), "the kernel computes");
    });
    return absl::OkStatus();
  }

 private:
  FakeCudaCalls* const calls_;
  const std::unique_ptr<AttentionBackend> cpu_;
};

class GpuServer {
 public:
  explicit GpuServer(bool allow_cuda_ipc = true) {
    ServerConfig config = TestServer::Config();
    config.regions.allow_shared_memory = true;
    config.regions.allow_cuda_ipc = allow_cuda_ipc;
    config.regions.max_regions = 4;
    ABSL_RAW_CHECK(calls_.SelectDevice(0).ok(), "there is a GPU");
    const auto staging = std::make_shared<StagingPool>(*PinnedRegion::Allocate(8 << 20, &calls_));
    std::vector<Device*> borrowed;
    for (int i = 0; i < kGpus; ++i) {
      const CudaDeviceOptions options{.index = i, .device = i, .slots = 2};
      devices_.push_back(*CudaDevice::Open(options, std::make_unique<FakeGpuBackend>(&calls_), staging, &calls_));
      borrowed.push_back(devices_.back().get());
    }
    server_ = *Server::Start(config, std::move(borrowed), Clock::Real(), [](const absl::Status&) {});
    channel_ =
        grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->grpc_port()), grpc::InsecureChannelCredentials());
  }

  FakeCudaCalls& calls() { return calls_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  v1::GetServerInfoResponse Info() const {
    grpc::ClientContext context;
    v1::GetServerInfoResponse info;
    ABSL_RAW_CHECK(v1::ServerService::NewStub(channel_)->GetServerInfo(&context, {}, &info).ok(), "it answers");
    return info;
  }
  void AwaitRegions(uint32_t regions) const {
    Await("the number of regions", [&] { return Info().regions().regions() == regions; });
  }

 private:
  FakeCudaCalls calls_{kGpus, 64 << 20};
  std::vector<std::unique_ptr<CudaDevice>> devices_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

v1::AttendInRegionsRequest OpenRequest(uint64_t id, const CudaIpcHandle& handle, int gpu, uint64_t bytes) {
  v1::AttendInRegionsRequest request;
  request.set_id(id);
  v1::CudaMemory& memory = *request.mutable_open()->mutable_cuda_memory();
  const DeviceUuid uuid = FakeCudaCalls::UuidOf(gpu);
  memory.set_handle(std::string(handle.begin(), handle.end()));
  memory.set_device_uuid(std::string(uuid.begin(), uuid.end()));
  memory.set_used_bytes(bytes);
  return request;
}

class RegionCudaTest : public ::testing::Test {
 protected:
  v1::AttendRequest Random() {
    v1::AttendHeader header = Header({7, 20});
    header.mutable_options()->set_return_lse(true);
    return Request(header, rng_);
  }
  // The answer that messages get.
  v1::AttendResponse Expected(const GpuServer& server, const v1::AttendRequest& request) {
    grpc::ClientContext context;
    v1::AttendResponse response;
    const grpc::Status status = v1::AttentionService::NewStub(server.channel())->Attend(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  std::mt19937_64 rng_{9};
};

std::string Bytes(const std::byte* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

TEST_F(RegionCudaTest, ACallersGpuMemoryIsInputAndOutputAndNothingIsCopied) {
  GpuServer server;
  EXPECT_TRUE(server.Info().regions().cuda_memory());
  const DeviceUuid uuid = FakeCudaCalls::UuidOf(1);
  EXPECT_EQ(server.Info().devices(1).uuid(), std::string(uuid.begin(), uuid.end()));
  const v1::AttendRequest request = Random();
  const v1::AttendResponse expected = Expected(server, request);
  const uint64_t bytes = RegionBytes(request);
  const CudaIpcHandle handle = server.calls().Export(1, bytes);
  std::byte* const memory = server.calls().Exported(handle);
  {
    RegionClient client(server.channel());
    client.Send(OpenRequest(1000, handle, 1, bytes));
    const v1::AttendInRegionsResponse opened = client.Await(1000);
    ASSERT_TRUE(opened.has_opened()) << opened.status().message();
    EXPECT_EQ(opened.opened().path(), "");
    const v1::AttendRegions call = RegionCallAt(opened.opened().region(), request);
    std::memcpy(memory + call.q().offset(), request.q().data(), request.q().size());
    std::memcpy(memory + call.k().offset(), request.k().data(), request.k().size());
    std::memcpy(memory + call.v().offset(), request.v().data(), request.v().size());
    const int copies = server.calls().copies();
    // More calls than the other GPU's queue would leave to it: all must go where the memory is.
    for (int i = 0; i < 8; ++i) ASSERT_EQ(client.AwaitCode(client.SendAttend(call)), Code::OK);
    EXPECT_EQ(server.calls().copies(), copies);
    EXPECT_EQ(Bytes(memory + call.o().offset(), call.o().bytes()), expected.o());
    EXPECT_EQ(Bytes(memory + call.lse().offset(), call.lse().bytes()), expected.lse());
    EXPECT_EQ(server.calls().counts().imports, 1);
  }
  server.AwaitRegions(0);
  EXPECT_EQ(server.calls().counts().imports, 0);
}

TEST_F(RegionCudaTest, SharedMemoryIsCopiedFromAndToWhereItIs) {
  GpuServer server;
  const v1::AttendRequest request = Random();
  const v1::AttendResponse expected = Expected(server, request);
  RegionClient client(server.channel());
  const std::unique_ptr<MappedRegion> region = client.Open(RegionBytes(request));
  EXPECT_EQ(server.calls().counts().registrations, 1);
  const v1::AttendRegions call = RegionCallAt(region->id(), request);
  WriteInputs(*region, call, request);
  const std::string guard(16, 'g');  // between o and LSE, where nothing is the server's to write
  const uint64_t gap = call.o().offset() + call.o().bytes();
  ASSERT_GE(call.lse().offset(), gap + guard.size());
  region->Write(gap, guard);
  ASSERT_EQ(client.AwaitCode(client.SendAttend(call)), Code::OK);
  EXPECT_EQ(region->Read(call.o().offset(), call.o().bytes()), expected.o());
  EXPECT_EQ(region->Read(call.lse().offset(), call.lse().bytes()), expected.lse());
  EXPECT_EQ(region->Read(gap, guard.size()), guard);
  EXPECT_EQ(client.AwaitCode(client.SendClose(region->id())), Code::OK);
  EXPECT_EQ(server.calls().counts().registrations, 0);
}

TEST_F(RegionCudaTest, HandlesThatDoNotOpenAreOrdinaryErrors) {
  GpuServer server;
  const v1::AttendRequest request = Random();
  const CudaIpcHandle handle = server.calls().Export(0, 4096);
  RegionClient client(server.channel());
  const auto open = [&](const v1::AttendInRegionsRequest& message) {
    client.Send(message);
    return client.AwaitCode(message.id());
  };
  EXPECT_EQ(open(OpenRequest(1, {}, 0, 4096)), Code::INVALID_ARGUMENT);
  EXPECT_EQ(open(OpenRequest(2, handle, 1, 4096)), Code::INVALID_ARGUMENT) << "it is on the other GPU";
  EXPECT_EQ(open(OpenRequest(3, handle, 7, 4096)), Code::NOT_FOUND);
  EXPECT_EQ(open(OpenRequest(4, handle, 0, 4097)), Code::INVALID_ARGUMENT) << "larger than it is";
  EXPECT_EQ(open(OpenRequest(5, handle, 0, 0)), Code::INVALID_ARGUMENT);
  v1::AttendInRegionsRequest short_handle = OpenRequest(6, handle, 0, 4096);
  short_handle.mutable_open()->mutable_cuda_memory()->mutable_handle()->pop_back();
  EXPECT_EQ(open(short_handle), Code::INVALID_ARGUMENT);
  EXPECT_EQ(server.calls().counts().imports, 0);
  EXPECT_EQ(open(OpenRequest(7, handle, 0, 4096)), Code::OK);
  Expected(server, request);  // the GPUs go on
}

TEST_F(RegionCudaTest, MemoriesDoNotMixInOneCall) {
  GpuServer server;
  const v1::AttendRequest request = Random();
  const uint64_t bytes = RegionBytes(request);
  RegionClient client(server.channel());
  std::vector<uint64_t> regions;
  for (int gpu = 0; gpu < kGpus; ++gpu) {
    client.Send(OpenRequest(100 + static_cast<uint64_t>(gpu), server.calls().Export(gpu, bytes), gpu, bytes));
    regions.push_back(client.Await(100 + static_cast<uint64_t>(gpu)).opened().region());
  }
  const std::unique_ptr<MappedRegion> shared = client.Open(bytes);
  for (const uint64_t other : {regions[1], shared->id()}) {
    v1::AttendRegions call = RegionCallAt(regions[0], request);
    call.mutable_v()->set_region(other);
    EXPECT_EQ(client.AwaitCode(client.SendAttend(call)), Code::INVALID_ARGUMENT);
  }
}

TEST_F(RegionCudaTest, GpuMemoryIsOffUnlessAllowed) {
  GpuServer server(/*allow_cuda_ipc=*/false);
  EXPECT_FALSE(server.Info().regions().cuda_memory());
  const CudaIpcHandle handle = server.calls().Export(0, 4096);
  RegionClient client(server.channel());
  client.Send(OpenRequest(1, handle, 0, 4096));
  EXPECT_EQ(client.AwaitCode(1), Code::FAILED_PRECONDITION);
}

}  // namespace
}  // namespace tessera::testing
