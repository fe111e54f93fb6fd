// Regions of shared memory over a real socket: what calls in them give, whose they are, and what a hostile client can
// do with them.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/attend_messages.h"
#include "tests/server/await.h"
#include "tests/server/raw_rpc.h"
#include "tests/server/region_client.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;
using Code = grpc::StatusCode;

ServerConfig Allowed() {
  ServerConfig config = TestServer::Config();
  config.regions.allow_shared_memory = true;
  config.regions.max_bytes = 4 << 20;
  config.regions.max_regions = 8;
  return config;
}

void AwaitRegions(const TestServer& server, uint32_t regions) {
  Await("the number of regions", [&] { return server.Info().regions().regions() == regions; });
}

class RegionTest : public ::testing::Test {
 protected:
  v1::AttendRequest Random(std::vector<uint32_t> lengths = {4, 0, 9}, bool return_lse = true) {
    v1::AttendHeader header = Header(lengths);
    header.mutable_options()->set_return_lse(return_lse);
    return Request(header, rng_);
  }

  std::mt19937_64 rng_{77};
};

TEST_F(RegionTest, ACallInSharedMemoryGivesTheBitsThatMessagesGive) {
  TestServer server("", Allowed());
  RegionClient client(server.channel());
  const v1::AttendRequest request = Random();
  const std::unique_ptr<MappedRegion> region = client.Open(RegionBytes(request));
  const v1::AttendRegions call = RegionCallAt(region->id(), request);
  WriteInputs(*region, call, request);
  const v1::AttendInRegionsResponse answer = client.Await(client.SendAttend(call));
  ASSERT_EQ(answer.status().code(), Code::OK) << answer.status().message();

  UnaryCall unary(server.attention(), request);
  ASSERT_TRUE(unary.Await().ok());
  EXPECT_EQ(region->Read(call.o().offset(), call.o().bytes()), unary.response().o());
  EXPECT_EQ(region->Read(call.lse().offset(), call.lse().bytes()), unary.response().lse());
  EXPECT_EQ(answer.result().o_bytes(), unary.response().o().size());
  EXPECT_EQ(answer.result().lse_bytes(), unary.response().lse().size());
  EXPECT_EQ(region->Read(call.q().offset(), call.q().bytes()), request.q()) << "inputs are left alone";
  EXPECT_EQ(server.Metrics()["tessera_region_payload_bytes_total{direction=\"read\",memory=\"shared_memory\"}"],
            static_cast<double>(request.q().size() + request.k().size() + request.v().size()));
  EXPECT_EQ(server.Metrics()["tessera_region_payload_bytes_total{direction=\"written\",memory=\"shared_memory\"}"],
            static_cast<double>(unary.response().o().size() + unary.response().lse().size()));
}

TEST_F(RegionTest, ManyCallsAtOnceEachInItsPlaceOverTwoRegions) {
  TestServer server("", Allowed());
  RegionClient client(server.channel());
  constexpr size_t kCalls = 40;
  std::vector<v1::AttendRequest> requests;
  for (size_t i = 0; i < kCalls; ++i) requests.push_back(Random({static_cast<uint32_t>(i % 5), 3}, false));
  const std::unique_ptr<MappedRegion> inputs = client.Open(kCalls * RegionBytes(requests[4]));
  const std::unique_ptr<MappedRegion> outputs = client.Open(kCalls * RegionBytes(requests[4]));
  std::vector<v1::AttendRegions> calls;
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < kCalls; ++i) {
    v1::AttendRegions call = RegionCallAt(inputs->id(), requests[i], i * RegionBytes(requests[4]));
    call.mutable_o()->set_region(outputs->id());
    WriteInputs(*inputs, call, requests[i]);
    ids.push_back(client.SendAttend(call));
    calls.push_back(call);
  }
  for (size_t i = 0; i < kCalls; ++i) {
    ASSERT_EQ(client.AwaitCode(ids[i]), Code::OK) << i;
    EXPECT_LT(Error(requests[i], outputs->Read(calls[i].o().offset(), calls[i].o().bytes())), 1e-5) << i;
  }
}

TEST_F(RegionTest, OffUnlessAllowed) {
  TestServer server;
  EXPECT_FALSE(server.Info().regions().shared_memory());
  EXPECT_FALSE(server.Info().regions().cuda_memory());
  RegionClient client(server.channel());
  const v1::AttendInRegionsResponse answer = client.Await(client.SendOpen(4096));
  EXPECT_EQ(answer.status().code(), Code::FAILED_PRECONDITION);
  EXPECT_THAT(answer.status().message(), HasSubstr("allow_shared_memory"));
}

TEST_F(RegionTest, InfoAndMetricsSayWhatIsOpen) {
  TestServer server("", Allowed());
  RegionClient client(server.channel());
  const std::unique_ptr<MappedRegion> region = client.Open(5000);
  const v1::Regions regions = server.Info().regions();
  EXPECT_TRUE(regions.shared_memory());
  EXPECT_EQ(regions.max_bytes(), 4u << 20);
  EXPECT_EQ(regions.max_regions(), 8u);
  EXPECT_EQ(regions.bytes(), 8192u);
  EXPECT_EQ(regions.regions(), 1u);
  EXPECT_EQ(server.Metrics()["tessera_regions"], 1);
  EXPECT_EQ(server.Metrics()["tessera_region_bytes{kind=\"used\"}"], 8192);
  EXPECT_EQ(client.AwaitCode(client.SendClose(region->id())), Code::OK);
  EXPECT_EQ(server.Info().regions().regions(), 0u) << "closed when the answer is there";
}

TEST_F(RegionTest, UnknownForeignAndStaleRegionsLookTheSame) {
  TestServer server("", Allowed());
  RegionClient owner(server.channel());
  RegionClient other(server.channel());  // on the same connection, even
  const v1::AttendRequest request = Random();
  std::unique_ptr<MappedRegion> region;
  for (int i = 0; i < 3; ++i) region = owner.Open(RegionBytes(request));
  EXPECT_EQ(owner.AwaitCode(owner.SendAttend(RegionCallAt(region->id(), request))), Code::OK);

  const v1::AttendInRegionsResponse foreign = other.Await(other.SendAttend(RegionCallAt(region->id(), request)));
  const v1::AttendInRegionsResponse unknown = owner.Await(owner.SendAttend(RegionCallAt(99, request)));
  EXPECT_EQ(owner.AwaitCode(owner.SendClose(region->id())), Code::OK);
  const v1::AttendInRegionsResponse stale = owner.Await(owner.SendAttend(RegionCallAt(region->id(), request)));
  EXPECT_EQ(foreign.status().code(), Code::NOT_FOUND);
  EXPECT_EQ(unknown.status().SerializeAsString(), foreign.status().SerializeAsString());
  EXPECT_EQ(stale.status().SerializeAsString(), foreign.status().SerializeAsString());

  const v1::AttendInRegionsResponse closed_twice = owner.Await(owner.SendClose(region->id()));
  const v1::AttendInRegionsResponse closed_by_another = other.Await(other.SendClose(region->id() - 1));
  EXPECT_EQ(closed_twice.status().code(), Code::NOT_FOUND);
  EXPECT_EQ(closed_twice.status().SerializeAsString(), closed_by_another.status().SerializeAsString());
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"not_found\"}"], 5) << "three calls, and the closings";
  EXPECT_EQ(owner.AwaitCode(owner.SendAttend(RegionCallAt(region->id() - 1, request))), Code::OK);
}

TEST_F(RegionTest, HostilePlacesAreInvalidArgumentAndTheServerGoesOn) {
  TestServer server("", Allowed());
  RegionClient client(server.channel());
  const v1::AttendRequest request = Random();
  const std::unique_ptr<MappedRegion> region = client.Open(RegionBytes(request));
  const v1::AttendRegions good = RegionCallAt(region->id(), request);
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  std::vector<v1::AttendRegions> hostile(11, good);
  hostile[0].mutable_q()->set_offset(kMost - 15);
  hostile[1].mutable_q()->set_offset(kMost - good.q().bytes() + 1);
  hostile[2].mutable_k()->set_bytes(kMost);
  hostile[3].mutable_v()->set_offset(RegionBytes(request));
  hostile[4].mutable_o()->set_offset(RegionBytes(request) - 16);
  hostile[5].mutable_o()->set_offset(8);
  hostile[6].mutable_o()->set_offset(good.q().offset());
  hostile[7].mutable_lse()->set_offset(good.o().offset());
  hostile[8].clear_lse();
  hostile[9].clear_header();
  hostile[10].mutable_header()->set_q_lengths(0, 1u << 31);
  for (const v1::AttendRegions& call : hostile) {
    EXPECT_EQ(client.AwaitCode(client.SendAttend(call)), Code::INVALID_ARGUMENT) << call.ShortDebugString();
  }
  EXPECT_EQ(client.AwaitCode(client.SendAttend(good)), Code::OK);
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"invalid\"}"], 11);
}

TEST_F(RegionTest, AClientThatTearsItsRegionApartHurtsNobody) {
  TestServer server("", Allowed());
  RegionClient client(server.channel());
  const v1::AttendRequest request = Random({300, 17});
  const std::unique_ptr<MappedRegion> region = client.Open(RegionBytes(request));
  const v1::AttendRegions call = RegionCallAt(region->id(), request);
  EXPECT_EQ(ftruncate(region->fd(), 0), -1) << "or the server would die of SIGBUS";
  std::atomic<bool> stop = false;
  std::thread scribbler([&] {
    std::mt19937_64 rng(5);
    const auto bytes = static_cast<off_t>(RegionBytes(request));
    while (!stop) {
      for (int i = 0; i < 1000; ++i)
        region->data()[rng() % static_cast<uint64_t>(bytes)] = static_cast<std::byte>(rng());
      fallocate(region->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, bytes);
    }
  });
  // Of the same parameters, so that they share batches.
  const v1::AttendRequest neighbour = Random({300, 17});
  UnaryCall alone(server.attention(), neighbour);
  ASSERT_TRUE(alone.Await().ok());
  for (int i = 0; i < 20; ++i) {
    const uint64_t id = client.SendAttend(call);
    UnaryCall beside(server.attention(), neighbour);
    ASSERT_TRUE(beside.Await().ok());
    EXPECT_EQ(beside.response().o(), alone.response().o());
    EXPECT_EQ(client.AwaitCode(id), Code::OK) << "values are the client's affair";
  }
  stop = true;
  scribbler.join();
}

TEST_F(RegionTest, ThePathIsThereUntilTheFirstCall) {
  TestServer server("", Allowed());
  RegionClient client(server.channel());
  const v1::AttendRequest request = Random();
  const v1::AttendInRegionsResponse answer = client.Await(client.SendOpen(RegionBytes(request)));
  const MappedRegion region(answer.opened());
  char link[256] = {};
  ASSERT_GT(readlink(answer.opened().path().c_str(), link, sizeof(link) - 1), 0);
  EXPECT_EQ(std::string(link), "/memfd:" + answer.opened().name() + " (deleted)");
  EXPECT_EQ(client.AwaitCode(client.SendAttend(RegionCallAt(region.id(), request))), Code::OK);
  struct stat now, then;
  ASSERT_EQ(fstat(region.fd(), &then), 0);
  const bool gone = stat(answer.opened().path().c_str(), &now) != 0 || now.st_ino != then.st_ino;
  EXPECT_TRUE(gone);
  EXPECT_EQ(client.AwaitCode(client.SendAttend(RegionCallAt(region.id(), request))), Code::OK);
}

TEST_F(RegionTest, OneTenantLeavesOthersTheirShare) {
  ServerConfig config = Allowed();
  config.attend.max_tenant_memory_share = 0.5;
  TestServer server("", config);
  RegionClient a(server.channel(), "a"), a_too(server.NewChannel(), "a"), b(server.channel(), "b");
  EXPECT_EQ(a.AwaitCode(a.SendOpen((2 << 20) + 1)), Code::INVALID_ARGUMENT);
  const std::unique_ptr<MappedRegion> held = a.Open(2 << 20);
  const v1::AttendInRegionsResponse refused = a_too.Await(a_too.SendOpen(1));
  EXPECT_EQ(refused.status().code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_EQ(server.Metrics()["tessera_rejected_total{reason=\"regions\"}"], 1);
  const std::unique_ptr<MappedRegion> others = b.Open(2 << 20);
  EXPECT_EQ(a.AwaitCode(a.SendClose(held->id())), Code::OK);
  EXPECT_EQ(a_too.AwaitCode(a_too.SendOpen(1)), Code::OK);
}

TEST_F(RegionTest, RegionsAreBoundedInNumber) {
  TestServer server("", Allowed());
  RegionClient client(server.channel());
  for (int i = 0; i < 8; ++i) ASSERT_EQ(client.AwaitCode(client.SendOpen(1)), Code::OK);
  EXPECT_EQ(client.AwaitCode(client.SendOpen(1)), Code::RESOURCE_EXHAUSTED);
}

TEST_F(RegionTest, ABrokenStreamGivesEverythingBack) {
  TestServer server("", Allowed());
  {
    RegionClient client(server.NewChannel());
    client.Open(1 << 20);
    client.Open(1 << 20);
    client.SendOpen(1 << 20);  // and one that may be on its way
  }
  AwaitRegions(server, 0);
  RegionClient client(server.channel());
  client.Open(4 << 20);
}

TEST_F(RegionTest, MemoryStaysUntilTheDeviceHasLetGoOfIt) {
  TestServer server("run@1=hang", Allowed());
  const v1::AttendRequest request = Random();
  {
    RegionClient client(server.channel());
    const std::unique_ptr<MappedRegion> region = client.Open(RegionBytes(request));
    client.SendAttend(RegionCallAt(region->id(), request));
    server.device().AwaitBatch(1);
  }
  server.AwaitMetric("tessera_cancelled_total{where=\"run\"}", 1);
  EXPECT_EQ(server.Info().regions().regions(), 1u);
  server.device().Release(1);
  AwaitRegions(server, 0);
}

TEST_F(RegionTest, ACancelledCallIsAnsweredWhenTheDeviceHasLetGo) {
  TestServer server("run@1=hang", Allowed());
  RegionClient client(server.channel());
  const v1::AttendRequest request = Random();
  const std::unique_ptr<MappedRegion> region = client.Open(RegionBytes(request));
  const uint64_t running = client.SendAttend(RegionCallAt(region->id(), request));
  server.device().AwaitBatch(1);
  const uint64_t queued = client.SendAttend(RegionCallAt(region->id(), request));
  server.AwaitQueued(1);
  client.SendCancel(running);
  client.SendCancel(queued);
  server.AwaitMetric("tessera_cancelled_total{where=\"run\"}", 1);
  EXPECT_EQ(client.AwaitCode(queued), Code::CANCELLED) << "it never ran, and is answered before the other";
  const uint64_t closing = client.SendClose(region->id());
  const uint64_t after = client.SendClose(77);
  EXPECT_EQ(client.AwaitCode(after), Code::NOT_FOUND);
  EXPECT_EQ(server.Info().regions().regions(), 1u);
  server.device().Release(1);
  EXPECT_EQ(client.AwaitCode(running), Code::CANCELLED);
  EXPECT_EQ(client.AwaitCode(closing), Code::OK);
  EXPECT_EQ(server.Info().regions().regions(), 0u);
}

TEST_F(RegionTest, ACallsOwnTimeoutEndsIt) {
  TestServer server("run@1=hang", Allowed());
  RegionClient client(server.channel());
  const v1::AttendRequest request = Random();
  const std::unique_ptr<MappedRegion> region = client.Open(RegionBytes(request));
  const uint64_t running = client.SendAttend(RegionCallAt(region->id(), request));
  server.device().AwaitBatch(1);
  v1::AttendRegions call = RegionCallAt(region->id(), request);
  call.set_timeout_us(1000);
  const uint64_t late = client.SendAttend(call);
  server.AwaitQueued(1);
  server.clock().Advance(absl::Seconds(1));
  EXPECT_EQ(client.AwaitCode(late), Code::DEADLINE_EXCEEDED);
  server.device().Release(1);
  EXPECT_EQ(client.AwaitCode(running), Code::OK);
}

TEST_F(RegionTest, AHalfClosedStreamEndsWithOkWhenAllIsDone) {
  TestServer server("run@1=hang", Allowed());
  RegionClient client(server.channel());
  const v1::AttendRequest request = Random();
  const std::unique_ptr<MappedRegion> region = client.Open(RegionBytes(request));
  const uint64_t id = client.SendAttend(RegionCallAt(region->id(), request));
  client.HalfClose();
  server.device().AwaitBatch(1);
  server.device().Release(1);
  EXPECT_EQ(client.AwaitCode(id), Code::OK);
  const grpc::Status status = client.Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(server.Info().regions().regions(), 0u);
}

TEST_F(RegionTest, AnIdThatIsOpenFailsItsCall) {
  TestServer server("run@1=hang", Allowed());
  RegionClient client(server.channel());
  const v1::AttendRequest request = Random();
  const std::unique_ptr<MappedRegion> region = client.Open(RegionBytes(request));
  v1::AttendInRegionsRequest message;
  message.set_id(70);
  *message.mutable_attend() = RegionCallAt(region->id(), request);
  client.Send(message);
  server.device().AwaitBatch(1);
  client.Send(message);
  server.AwaitMetric("tessera_rejected_total{reason=\"invalid\"}", 1);
  server.device().Release(1);
  EXPECT_EQ(client.AwaitCode(70), Code::INVALID_ARGUMENT);
  client.Send(message);
  EXPECT_EQ(client.AwaitCode(70), Code::OK) << "the id is free again";
}

TEST_F(RegionTest, CallsBeyondTheStreamsLimitAreRefused) {
  ServerConfig config = Allowed();
  config.attend.max_stream_calls = 2;
  TestServer server("run@1=hang", config);
  RegionClient client(server.channel());
  const v1::AttendRequest request = Random();
  const std::unique_ptr<MappedRegion> region = client.Open(RegionBytes(request));
  const uint64_t first = client.SendAttend(RegionCallAt(region->id(), request));
  server.device().AwaitBatch(1);
  const uint64_t second = client.SendAttend(RegionCallAt(region->id(), request));
  const v1::AttendInRegionsResponse third = client.Await(client.SendAttend(RegionCallAt(region->id(), request)));
  EXPECT_EQ(third.status().code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_GT(third.status().retry_after_ms(), 0u);
  server.device().Release(1);
  EXPECT_EQ(client.AwaitCode(first), Code::OK);
  EXPECT_EQ(client.AwaitCode(second), Code::OK);
}

TEST_F(RegionTest, RequestsThatSayNothingAreRefusedAndMalformedOnesEndTheStream) {
  TestServer server("", Allowed());
  RegionClient client(server.channel());
  v1::AttendInRegionsRequest nothing;
  nothing.set_id(5);
  client.Send(nothing);
  EXPECT_EQ(client.AwaitCode(5), Code::INVALID_ARGUMENT);
  nothing.mutable_open();
  client.Send(nothing);
  EXPECT_EQ(client.AwaitCode(5), Code::INVALID_ARGUMENT);
  client.SendCancel(5);  // passed over

  std::string response;
  const grpc::Status malformed =
      RawCall(server.channel(), "/tessera.v1.RegionService/AttendInRegions", "\x08\xff\xff", &response);
  EXPECT_EQ(malformed.error_code(), Code::INVALID_ARGUMENT);
  v1::AttendInRegionsRequest large;
  large.mutable_attend()->mutable_header()->mutable_q_lengths()->Resize(2 << 20, 1);
  const grpc::Status too_large =
      RawCall(server.channel(), "/tessera.v1.RegionService/AttendInRegions", large.SerializeAsString(), &response);
  EXPECT_EQ(too_large.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(too_large.error_message(), HasSubstr("limit"));
  EXPECT_EQ(client.AwaitCode(client.SendOpen(1)), Code::OK);
}

TEST_F(RegionTest, ADrainingServerEndsIdleStreamsWithUnavailable) {
  TestServer server("run@1=hang", Allowed());
  RegionClient busy(server.channel()), idle(server.channel());
  const v1::AttendRequest request = Random();
  const std::unique_ptr<MappedRegion> region = busy.Open(RegionBytes(request));
  idle.Open(4096);
  const uint64_t id = busy.SendAttend(RegionCallAt(region->id(), request));
  server.device().AwaitBatch(1);
  std::thread drain([&] {
    server.server().StopAccepting();
    EXPECT_TRUE(server.server().Drain(absl::Hours(1)));
  });
  // A call that is admitted still waits behind the one that hangs, so each is withdrawn.
  Await("the drain", [&] {
    const uint64_t probe = busy.SendAttend(RegionCallAt(region->id(), request));
    busy.SendCancel(probe);
    return busy.AwaitCode(probe) == Code::UNAVAILABLE;
  });
  server.device().Release(1);
  EXPECT_EQ(busy.AwaitCode(id), Code::OK);
  EXPECT_EQ(busy.Finish().error_code(), Code::UNAVAILABLE);
  EXPECT_EQ(idle.Finish().error_code(), Code::UNAVAILABLE);
  drain.join();
  EXPECT_TRUE(server.server().AwaitMemory(kLongestWait));
}

TEST_F(RegionTest, ALostDeviceIsUnavailableAtOnce) {
  TestServer server("run@1=sticky", Allowed());
  RegionClient client(server.channel());
  const v1::AttendRequest request = Random();
  const std::unique_ptr<MappedRegion> region = client.Open(RegionBytes(request));
  EXPECT_EQ(client.AwaitCode(client.SendAttend(RegionCallAt(region->id(), request))), Code::UNAVAILABLE);
  EXPECT_EQ(client.AwaitCode(client.SendAttend(RegionCallAt(region->id(), request))), Code::UNAVAILABLE);
  EXPECT_FALSE(server.AwaitFatal().ok());
}

TEST_F(RegionTest, AFailureOfTheDeviceConcernsTheCallAlone) {
  TestServer server("run@1=resource_exhausted", Allowed());
  RegionClient client(server.channel());
  const v1::AttendRequest request = Random();
  const std::unique_ptr<MappedRegion> region = client.Open(RegionBytes(request));
  const v1::AttendInRegionsResponse failed = client.Await(client.SendAttend(RegionCallAt(region->id(), request)));
  EXPECT_EQ(failed.status().code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_GT(failed.status().retry_after_ms(), 0u);
  EXPECT_EQ(client.AwaitCode(client.SendAttend(RegionCallAt(region->id(), request))), Code::OK);
}

}  // namespace
}  // namespace tessera::testing
