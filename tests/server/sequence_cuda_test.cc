// Resident sequences of a server with GPUs, which are not there.
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "server/device/cuda/cuda_device.h"
#include "server/device/cuda/pinned_region.h"
#include "server/device/cuda/testing/fake_cuda_calls.h"
#include "server/device/cuda/testing/fake_gpu_kernels.h"
#include "tests/random/seed.h"
#include "tests/server/metrics_reader.h"
#include "tests/server/pool_load.h"
#include "tests/server/sequence_client.h"
#include "tests/server/step_stream.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

constexpr int kGpus = 2;
constexpr double kTolerance = 1e-5;

CacheProfile Profile(const std::string& name, bool float8 = false, int32_t pages = 64) {
  return {.name = name,
          .layers = 2,
          .kv_heads = 2,
          .head_dim = 16,
          .dtype = DType::kFloat32,
          .float8 = float8,
          .page_tokens = 8,
          .pages = pages,
          .max_tokens = 200,
          .max_sequences = 16};
}

class SequenceCudaTest : public ::testing::Test {
 protected:
  SequenceCudaTest() {
    ABSL_RAW_CHECK(calls_.SelectDevice(0).ok(), "there is a GPU");
    staging_ = std::make_shared<StagingPool>(*PinnedRegion::Allocate(8 << 20, &calls_));
  }
  absl::Status Start(std::vector<CacheProfile> profiles, bool with_pages = true,
                     absl::Duration lookout = ServerConfig().scheduler.lookout) {
    std::vector<Device*> borrowed;
    for (int i = 0; i < kGpus; ++i) {
      const CudaDeviceOptions options{.index = i, .device = i, .slots = 2, .looks = 1};
      devices_.push_back(*CudaDevice::Open(options, std::make_unique<NoGpuKernel>(), staging_, &calls_,
                                           with_pages ? std::make_unique<FakePagedKernel>(&calls_) : nullptr));
      borrowed.push_back(devices_.back().get());
    }
    ServerConfig config = TestServer::Config();
    config.kv_profiles = std::move(profiles);
    config.scheduler.lookout = lookout;
    absl::StatusOr<std::unique_ptr<Server>> server =
        Server::Start(config, std::move(borrowed), Clock::Real(), [](const absl::Status&) {});
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    channel_ =
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->grpc_port()), grpc::InsecureChannelCredentials());
    return absl::OkStatus();
  }
  // A full pool whose idle sequences go to the host, on a server of its own.
  void LoadPool(const CacheProfile& profile) {
    ASSERT_TRUE(Start({profile}).ok());
    const auto connect = [this] {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server_->grpc_port()),
                                       grpc::InsecureChannelCredentials(), arguments);
    };
    const PoolReport report = RunPoolLoad(connect, profile, {.seed = RandomSeed()});
    EXPECT_EQ(report.failed, 0);
    EXPECT_LT(report.worst_error, kTolerance);
    EXPECT_GT(report.refused, 0);
    EXPECT_GT(report.read_at_end, 0);
    const MetricsReader metrics(MetricsText(*server_));
    EXPECT_EQ(WrongInPoolMetrics(metrics, profile, report), "");
    EXPECT_EQ(metrics["tessera_pinned_memory_bytes{kind=\"host_pages\"}"], static_cast<double>(profile.host_bytes()));
    EXPECT_GT(calls_.copies(), 0);
  }
  v1::GetServerInfoResponse Info() const {
    grpc::ClientContext context;
    v1::GetServerInfoResponse info;
    ABSL_RAW_CHECK(v1::ServerService::NewStub(channel_)->GetServerInfo(&context, {}, &info).ok(), "it answers");
    return info;
  }

  FakeCudaCalls calls_{kGpus, 4 << 20};
  std::shared_ptr<StagingPool> staging_;
  std::vector<std::unique_ptr<CudaDevice>> devices_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(SequenceCudaTest, StepsAreAsDefinedOnEveryDevice) {
  const std::vector<CacheProfile> profiles = {Profile("first"), Profile("second")};
  ASSERT_TRUE(Start(profiles).ok());
  for (const CacheProfile& profile : profiles) {
    SequenceClient client(channel_, profile, "a", RandomSeed());
    KnownSequence trunk = client.Create(), other = client.Create();
    for (const uint32_t tokens : {20, 1, 3}) {
      for (const uint32_t layer : {0, 1}) {
        EXPECT_LE(client.Extend({{&trunk, layer, tokens, tokens}, {&other, layer, 1, 1}}), kTolerance);
      }
    }
    KnownSequence fork;
    ASSERT_TRUE(client.Fork(trunk, &fork, 13).ok());
    for (const uint32_t tokens : {1, 4}) {
      EXPECT_LE(client.Extend({{&trunk, 1, tokens, tokens}, {&fork, 1, tokens, tokens}}), kTolerance);
    }
    ASSERT_TRUE(client.Truncate(fork, 9).ok());
    EXPECT_LE(client.Extend({{&fork, 0, 2, 2}}), kTolerance);
    EXPECT_LE(client.Extend({{&trunk, 0, 2, 0}}), kTolerance);  // reads alone
    EXPECT_EQ(client.Release({trunk.handle, other.handle, fork.handle}), 3);
  }
}

// Slots that look out handle a lone caller's messages: the first's here, whose steps are of one sequence, so that none
// shares a batch, and none of the others' while they share batches.
TEST_F(SequenceCudaTest, StreamedStepsAreAsDefinedWhoeverHandlesThem) {
  ASSERT_TRUE(Start({Profile("first"), Profile("second")}, /*with_pages=*/true, absl::Seconds(1)).ok());
  const auto step = [this](const CacheProfile& profile, uint64_t seed) {
    SequenceClient client(channel_, profile, "a", seed);
    StepStream stream(client.stub());
    KnownSequence sequence = client.Create();
    uint64_t id = 0;
    for (int round = 0; round < 40; ++round) {
      // Some wait for each answer, some come many at once, and some are not wanted any more.
      std::vector<v1::ExtendRequest> sent;
      const std::vector<KnownEntry> entries = {{&sequence, 1, 1, 1}};
      for (int ahead = 0; ahead <= round % 4; ++ahead) {
        sent.push_back(client.Request(entries));
        ASSERT_TRUE(stream.Send(id + sent.size(), sent.back()));
      }
      ASSERT_TRUE(stream.Send(0, client.Request({{&sequence, 0, 1, 1}})));
      ASSERT_TRUE(stream.SendCancel(0));
      for (const v1::ExtendRequest& request : sent) {
        const v1::ExtendStreamResponse answer = stream.Await(++id);
        ASSERT_EQ(answer.status().code(), 0) << answer.status().message();
        client.Note(entries, request);
        EXPECT_LE(client.Error(entries, request, ToResponse(answer)), kTolerance);
      }
      const int code = stream.Await(0).status().code();
      EXPECT_TRUE(code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::OK) << code;
    }
    stream.HalfClose();
    EXPECT_TRUE(stream.Finish().ok());
  };
  step(Profile("first"), RandomSeed());  // alone
  std::vector<std::thread> threads;
  for (const char* profile : {"first", "second", "second"}) {
    threads.emplace_back(step, Profile(profile), RandomSeed());
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SequenceCudaTest, IdleSequencesGoToTheHostAndComeBack) { LoadPool(PoolProfile("pool", /*host_pages=*/40)); }

TEST_F(SequenceCudaTest, PagesOfFloat8GoToTheHostAndComeBack) {
  LoadPool(PoolProfile("pool", /*host_pages=*/40, /*float8=*/true));
}

TEST_F(SequenceCudaTest, PagesCountAsMemoryInUseAndCallsFitBesideThem) {
  // The first and the third profile share a device. A page of fp8 is a quarter as large.
  ASSERT_TRUE(Start({Profile("first"), Profile("second"), Profile("third", /*float8=*/true)}).ok());
  const int64_t bytes = Profile("first").bytes();
  const v1::GetServerInfoResponse info = Info();
  EXPECT_EQ(info.devices(0).memory_used_bytes(), static_cast<uint64_t>(bytes + bytes / 4));
  EXPECT_EQ(info.devices(1).memory_used_bytes(), static_cast<uint64_t>(bytes));
  EXPECT_EQ(info.limits().max_request_bytes(), info.devices(0).memory_bytes() - info.devices(0).memory_used_bytes());
}

TEST_F(SequenceCudaTest, ServerWhosePagesAreNotToBeHadDoesNotStart) {
  const absl::Status status = Start({Profile("first"), Profile("large", /*float8=*/false, /*pages=*/1024)});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("profile \"large\""), std::string::npos) << status;
  EXPECT_EQ(devices_[0]->memory_in_use(), 0);
}

TEST_F(SequenceCudaTest, DeviceThatKeepsNoPagesTakesNoProfiles) {
  EXPECT_EQ(Start({Profile("first")}, /*with_pages=*/false).code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tessera::testing
