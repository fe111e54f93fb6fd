// The C++ client's regions, and the load tester's, against a server in a process of its own.
#include "client/cpp/tessera/region_session.h"

#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "client/cpp/tessera/client.h"
#include "client/cpp/tessera/shared_mapping.h"
#include "gtest/gtest.h"
#include "tests/server/await.h"
#include "tests/server/server_process.h"

namespace tessera {
namespace {

using testing::ServerProcess;

const std::vector<std::string> kAllowed = {"--backend=cpu", "--threads=2", "--allow-shared-memory",
                                           "--max-region-bytes=4MiB"};

// q, k, v, o and LSE of a float32 call of `rows` rows, one after the other in `memory`. q, k and v are random.
AttendCall CallIn(absl::Span<std::byte> memory, uint32_t rows, std::mt19937_64& rng) {
  constexpr uint32_t kHeads = 2, kHeadDim = 16;
  AttendCall call;
  call.header.set_dtype(v1::DATA_TYPE_FLOAT32);
  call.header.set_q_heads(kHeads);
  call.header.set_kv_heads(kHeads);
  call.header.set_head_dim(kHeadDim);
  call.header.add_q_lengths(rows);
  call.header.mutable_options()->set_return_lse(true);
  const size_t bytes = size_t{rows} * kHeads * kHeadDim * sizeof(float);
  auto* const floats = reinterpret_cast<float*>(memory.data());
  for (size_t i = 0; i < 3 * bytes / sizeof(float); ++i) {
    floats[i] = std::uniform_real_distribution<float>(-1, 1)(rng);
  }
  call.q = memory.subspan(0, bytes);
  call.k = memory.subspan(bytes, bytes);
  call.v = memory.subspan(2 * bytes, bytes);
  call.o = memory.subspan(3 * bytes, bytes);
  call.lse = memory.subspan(4 * bytes, size_t{rows} * kHeads * sizeof(float));
  return call;
}
constexpr size_t kCallBytes = 65536;

std::vector<std::byte> Copy(absl::Span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

class RegionSessionTest : public ::testing::Test {
 protected:
  static std::unique_ptr<RegionSession> Connect(const ServerProcess& server, const ClientOptions& options = {}) {
    return *RegionSession::Connect(server.target(), options);
  }
  std::mt19937_64 rng_{3};
};

TEST_F(RegionSessionTest, CallsInARegionGiveWhatMessagesGive) {
  const ServerProcess server(TESSERA_SERVER, kAllowed);
  const std::unique_ptr<RegionSession> session = Connect(server);
  absl::StatusOr<Region> region = session->OpenSharedMemory(kCallBytes);
  ASSERT_TRUE(region.ok()) << region.status();
  AttendCall call = CallIn(region->memory(), 50, rng_);
  const absl::StatusOr<AttendReply> reply = session->Attend(call);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->result.o_bytes(), call.o.size());
  const std::vector<std::byte> o = Copy(call.o), lse = Copy(call.lse);

  std::memset(call.o.data(), 0, call.o.size());
  std::memset(call.lse.data(), 0, call.lse.size());
  const auto client = *Client::Connect(server.target(), {});
  ASSERT_TRUE(client->Attend(call).ok());
  EXPECT_EQ(Copy(call.o), o);
  EXPECT_EQ(Copy(call.lse), lse);

  EXPECT_TRUE(region->Close().ok());
  EXPECT_TRUE(region->memory().empty());
  EXPECT_EQ(session->Attend(call).status().code(), absl::StatusCode::kInvalidArgument) << "it is in no region any more";
  EXPECT_EQ(client->GetServerInfo()->regions().regions(), 0u);
}

TEST_F(RegionSessionTest, ManyAtOnce) {
  const ServerProcess server(TESSERA_SERVER, kAllowed);
  const std::unique_ptr<RegionSession> session = Connect(server);
  constexpr size_t kCalls = 40;
  absl::StatusOr<Region> region = session->OpenSharedMemory(kCalls * kCallBytes);
  ASSERT_TRUE(region.ok()) << region.status();
  std::atomic<int> ok = 0;
  absl::BlockingCounter done(kCalls);
  for (size_t i = 0; i < kCalls; ++i) {
    const AttendCall call = CallIn(region->memory().subspan(i * kCallBytes, kCallBytes), 1 + i, rng_);
    session->AttendAsync(call, [&](const absl::StatusOr<AttendReply>& reply) {
      if (reply.ok()) ++ok;
      done.DecrementCount();
    });
  }
  done.Wait();
  EXPECT_EQ(ok, static_cast<int>(kCalls));
}

TEST_F(RegionSessionTest, TensorsOutsideTheRegionsAreRefusedHere) {
  const ServerProcess server(TESSERA_SERVER, kAllowed);
  const std::unique_ptr<RegionSession> session = Connect(server);
  const std::unique_ptr<RegionSession> other = Connect(server);
  absl::StatusOr<Region> region = session->OpenSharedMemory(kCallBytes);
  ASSERT_TRUE(region.ok());
  AttendCall call = CallIn(region->memory(), 4, rng_);
  EXPECT_EQ(other->Attend(call).status().code(), absl::StatusCode::kInvalidArgument);
  std::vector<std::byte> elsewhere(call.o.size());
  call.o = absl::MakeSpan(elsewhere);
  EXPECT_EQ(session->Attend(call).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RegionSessionTest, CallsWhoseTimeIsOverEndAtOnce) {
  const ServerProcess server(TESSERA_SERVER, kAllowed);
  const std::unique_ptr<RegionSession> session = Connect(server);
  absl::StatusOr<Region> region = session->OpenSharedMemory(kCallBytes);
  ASSERT_TRUE(region.ok()) << region.status();
  AttendCall call = CallIn(region->memory(), 4, rng_);
  for (const absl::Duration over : {-absl::Nanoseconds(1), -absl::Seconds(1), -absl::InfiniteDuration()}) {
    call.timeout = over;
    EXPECT_EQ(session->Attend(call).status().code(), absl::StatusCode::kDeadlineExceeded) << over;
  }
  call.timeout = absl::InfiniteDuration();
  EXPECT_TRUE(session->Attend(call).ok());
}

TEST_F(RegionSessionTest, OffAndFullServersSaySo) {
  const ServerProcess off(TESSERA_SERVER, {"--backend=cpu"});
  EXPECT_EQ(Connect(off)->OpenSharedMemory(1).status().code(), absl::StatusCode::kFailedPrecondition);
  const ServerProcess server(TESSERA_SERVER, kAllowed);
  const std::unique_ptr<RegionSession> session = Connect(server);
  const absl::StatusOr<Region> all = session->OpenSharedMemory(4 << 20);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(session->OpenSharedMemory(1).status().code(), absl::StatusCode::kResourceExhausted);
  CudaAllocation allocation = {.memory = all->memory(), .handle = {}, .device_uuid = {}};
  EXPECT_EQ(session->OpenCudaMemory(allocation).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RegionSessionTest, RegionsLeaveConnectionsTheirFiles) {
  constexpr int kFiles = 160;  // 64 are the process's own, and a quarter of the others is for regions
  const ServerProcess server(TESSERA_SERVER, kAllowed, {}, kFiles);
  const std::unique_ptr<RegionSession> session = Connect(server);
  std::vector<Region> regions;
  absl::Status status;
  while (status.ok() && regions.size() < kFiles) {
    absl::StatusOr<Region> region = session->OpenSharedMemory(1);
    status = region.status();
    if (region.ok()) regions.push_back(*std::move(region));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(regions.size(), 24);
  for (int i = 0; i < 20; ++i) {
    const auto client = *Client::Connect(server.target(), {});
    EXPECT_TRUE(client->GetServerInfo().ok());
  }
}

TEST_F(RegionSessionTest, AServerThatDiesEndsCallsAndLeavesTheMemory) {
  std::vector<std::string> flags = kAllowed;
  flags.push_back("--fault-script=run@1=hang");
  ServerProcess server(TESSERA_SERVER, flags);
  const std::unique_ptr<RegionSession> session = Connect(server);
  absl::StatusOr<Region> region = session->OpenSharedMemory(kCallBytes);
  ASSERT_TRUE(region.ok()) << region.status();
  const AttendCall call = CallIn(region->memory(), 4, rng_);
  absl::StatusOr<AttendReply> reply;
  absl::BlockingCounter done(1);
  session->AttendAsync(call, [&](absl::StatusOr<AttendReply> end) {
    reply = std::move(end);
    done.DecrementCount();
  });
  server.Signal(SIGKILL);
  done.Wait();
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  region->memory()[kCallBytes - 1] = std::byte{1};
  EXPECT_EQ(session->Attend(call).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(region->Close().code(), absl::StatusCode::kUnavailable);
}

TEST_F(RegionSessionTest, AServerThatDoesNotAnswerIsNotWaitedFor) {
  const ServerProcess server(TESSERA_SERVER, kAllowed);
  ClientOptions options;
  options.default_timeout = absl::Milliseconds(100);
  const std::unique_ptr<RegionSession> session = Connect(server, options);
  // However long the server takes, in the end it is in time.
  const auto open = [&session](size_t bytes) {
    absl::StatusOr<Region> region;
    testing::Await("room", [&] {
      region = session->OpenSharedMemory(bytes);
      return !absl::IsResourceExhausted(region.status()) && !absl::IsDeadlineExceeded(region.status());
    });
    return region;
  };
  absl::StatusOr<Region> region = open(1 << 20), other = open(kCallBytes);
  ASSERT_TRUE(region.ok()) << region.status();
  ASSERT_TRUE(other.ok()) << other.status();
  AttendCall call = CallIn(region->memory(), 4, rng_);
  server.Signal(SIGSTOP);
  EXPECT_EQ(session->Attend(call).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(session->OpenSharedMemory(2 << 20).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(other->Close().code(), absl::StatusCode::kDeadlineExceeded);
  server.Signal(SIGCONT);

  // What it opens too late is closed again: otherwise there would never be room.
  const absl::StatusOr<Region> late = open(2 << 20);
  EXPECT_TRUE(late.ok()) << late.status();
  call.timeout = testing::kLongestWait;
  EXPECT_EQ(session->Attend(call).status(), absl::OkStatus());
}

TEST_F(RegionSessionTest, ASessionsEndWaitsForNoAnswer) {
  const ServerProcess server(TESSERA_SERVER, kAllowed);
  std::unique_ptr<RegionSession> session = Connect(server);
  absl::StatusOr<Region> region = session->OpenSharedMemory(kCallBytes);
  ASSERT_TRUE(region.ok()) << region.status();
  AttendCall call = CallIn(region->memory(), 4, rng_);
  call.timeout = absl::Hours(1);
  server.Signal(SIGSTOP);
  absl::StatusOr<AttendReply> reply;
  session->AttendAsync(call, [&reply](absl::StatusOr<AttendReply> end) { reply = std::move(end); });
  session.reset();
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(RegionSessionTest, ACallCanBeWithdrawn) {
  std::vector<std::string> flags = kAllowed;
  // Long enough for the second call to be withdrawn while the first one keeps the slot.
  flags.push_back("--fault-script=run@1=delay:2s");
  const ServerProcess server(TESSERA_SERVER, flags);
  const std::unique_ptr<RegionSession> session = Connect(server);
  absl::StatusOr<Region> region = session->OpenSharedMemory(2 * kCallBytes);
  ASSERT_TRUE(region.ok()) << region.status();
  absl::StatusOr<AttendReply> first, second;
  absl::BlockingCounter done(2);
  const auto store = [&done](absl::StatusOr<AttendReply>* to) {
    return [to, &done](absl::StatusOr<AttendReply> end) {
      *to = std::move(end);
      done.DecrementCount();
    };
  };
  session->AttendAsync(CallIn(region->memory(), 4, rng_), store(&first));
  const CallHandle handle = session->AttendAsync(CallIn(region->memory().subspan(kCallBytes), 4, rng_), store(&second));
  handle.Cancel();
  done.Wait();
  EXPECT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(second.status().code(), absl::StatusCode::kCancelled);
  handle.Cancel();
}

TEST_F(RegionSessionTest, APathThatLeadsElsewhereIsNotOpened) {
  EXPECT_EQ(SharedMapping::Open("/proc/self/exe", "tessera-0", 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(SharedMapping::Open("/nowhere", "tessera-0", 1).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RegionSessionTest, TheLoadTesterUsesSharedMemoryAndItsAnswersAreRight) {
  const ServerProcess server(TESSERA_SERVER, kAllowed);
  const std::string command = std::string(TESSERA_LOAD) + " --target=" + server.target() +
                              " --regions=shm --callers=6 --connections=2 --payloads=2 --requests=60 --warm_up=0s "
                              "--verify=20 --progress=false --shape=s=33,kv=40,heads=4,kv_heads=2,d=32,lse=1 "
                              "--shape=s=5,heads=2,d=16,dtype=fp32,mask=causal";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace tessera
