// The program itself: flags, signals, exit codes.
#include <signal.h>

#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "server/credentials/temporary_folder.h"
#include "tests/server/attend_messages.h"
#include "tests/server/await.h"
#include "tests/server/metrics_reader.h"
#include "tests/server/raw_rpc.h"
#include "tests/server/server_process.h"
#include "tests/server/stream_client.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

class ProcessTest : public ::testing::Test {
 protected:
  static std::shared_ptr<grpc::Channel> Connect(const ServerProcess& process) {
    return grpc::CreateChannel(process.target(), grpc::InsecureChannelCredentials());
  }
  static bool Serving(const std::shared_ptr<grpc::Channel>& channel) {
    std::string response;
    return RawCall(channel, "/grpc.health.v1.Health/Check", "", &response).ok() && response == "\x08\x01";
  }

  std::mt19937_64 rng_{81};
};

TEST_F(ProcessTest, ServesOnThePortsThatItPrints) {
  const ServerProcess process(TESSERA_SERVER, {"--backend=cpu"});
  ASSERT_TRUE(process.serving());
  const auto stub = v1::AttentionService::NewStub(Connect(process));
  UnaryCall call(*stub, Request(Header({9}), rng_));
  ASSERT_TRUE(call.Await().ok()) << call.Await().error_message();
  EXPECT_LT(Error(call.request(), call.response().o()), 1e-5);
  EXPECT_EQ(MetricsReader::Scrape(process.metrics_port())["tessera_batches_total{kernel=\"cpu\"}"], 1);
}

TEST_F(ProcessTest, IdleServerSleeps) {
  const ServerProcess process(TESSERA_SERVER, {"--backend=cpu"});
  ASSERT_TRUE(process.serving());
  const auto stub = v1::AttentionService::NewStub(Connect(process));
  ASSERT_TRUE(UnaryCall(*stub, Request(Header({9}), rng_)).Await().ok());
  // A look every 5 ms would be 200 a second.
  absl::Time since = absl::Now();
  int64_t sleeps = process.Sleeps();
  Await("half a second of little to do", [&] {
    if (absl::Now() - since < absl::Milliseconds(500)) return false;
    const int64_t in_window = process.Sleeps() - std::exchange(sleeps, process.Sleeps());
    since = absl::Now();
    return in_window < 50;
  });
  UnaryCall call(*stub, Request(Header({9}), rng_));
  EXPECT_TRUE(call.Await().ok()) << call.Await().error_message();
}

TEST_F(ProcessTest, SigtermSaysNotServingServesOnFinishesAndExitsWithZero) {
  ServerProcess process(TESSERA_SERVER, {"--fault-script=run@1=delay:5s", "--drain-grace=10s"});
  ASSERT_TRUE(process.serving());
  const auto channel = Connect(process);
  const auto stub = v1::AttentionService::NewStub(channel);
  ASSERT_TRUE(Serving(channel));
  UnaryCall admitted(*stub, Request(Header({9}), rng_));
  Await("the call's admission",
        [&] { return MetricsReader::Scrape(process.metrics_port())["tessera_inflight_bytes"] > 0; });
  process.Signal(SIGTERM);
  Await("NOT_SERVING", [&] { return !Serving(channel); });
  // Still within the grace: admitted.
  UnaryCall in_grace(*stub, Request(Header({9}), rng_));
  EXPECT_TRUE(in_grace.Await().ok()) << in_grace.Await().error_message();
  EXPECT_TRUE(admitted.Await().ok()) << admitted.Await().error_message();
  EXPECT_EQ(process.Wait(), 0);
}

TEST_F(ProcessTest, SigintDrainsToo) {
  ServerProcess process(TESSERA_SERVER, {"--drain-grace=0s"});
  ASSERT_TRUE(process.serving());
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(), 0);
}

TEST_F(ProcessTest, ClientThatDoesNotReadDoesNotKeepTheProcess) {
  ServerProcess process(TESSERA_SERVER, {"--drain-grace=0s", "--drain-timeout=200ms"});
  ASSERT_TRUE(process.serving());
  const auto stub = v1::AttentionService::NewStub(Connect(process));
  StreamClient stream(*stub);
  stream.Send(StreamMessages(1, Request(ManyRows(8192), rng_), 1 << 20));
  Await("the answer", [&] {
    return MetricsReader::Scrape(process.metrics_port())["tessera_stage_seconds_count{stage=\"queue\"}"] > 0;
  });
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
}

TEST_F(ProcessTest, WakeSignalFromOutsideLeavesItListening) {
  ServerProcess process(TESSERA_SERVER, {"--drain-grace=0s"});
  ASSERT_TRUE(process.serving());
  const auto channel = Connect(process);
  process.Signal(SIGUSR2);
  EXPECT_TRUE(Serving(channel));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
}

TEST_F(ProcessTest, LogWithoutAReaderLeavesItListening) {
  ServerProcess process(TESSERA_SERVER, {"--drain-grace=0s"});
  ASSERT_TRUE(process.serving());
  const auto channel = Connect(process);
  process.Signal(SIGPIPE);  // what writing to it would raise
  EXPECT_TRUE(Serving(channel));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
}

TEST_F(ProcessTest, SecondSignalEndsItAtOnce) {
  ServerProcess process(TESSERA_SERVER, {"--drain-grace=10m"});
  ASSERT_TRUE(process.serving());
  const auto channel = Connect(process);
  process.Signal(SIGTERM);
  Await("NOT_SERVING", [&] { return !Serving(channel); });
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 128 + SIGTERM);
}

TEST_F(ProcessTest, LostDeviceExitsWith70AfterAnsweringUnavailable) {
  ServerProcess process(TESSERA_SERVER, {"--fault-script=run@2=sticky"});
  ASSERT_TRUE(process.serving());
  const auto stub = v1::AttentionService::NewStub(Connect(process));
  UnaryCall good(*stub, Request(Header({9}), rng_));
  EXPECT_TRUE(good.Await().ok());
  UnaryCall doomed(*stub, Request(Header({9}), rng_));
  EXPECT_EQ(doomed.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(process.Wait(), 70);
}

TEST_F(ProcessTest, HungDeviceExitsWith70) {
  ServerProcess process(TESSERA_SERVER, {"--fault-script=run@1=hang", "--hang-timeout=200ms"});
  ASSERT_TRUE(process.serving());
  const auto stub = v1::AttentionService::NewStub(Connect(process));
  UnaryCall doomed(*stub, Request(Header({9}), rng_));
  EXPECT_EQ(doomed.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(process.Wait(), 70);
}

TEST_F(ProcessTest, BadFlagsExitWith64AndAPortInUseWith69) {
  ServerProcess nonsense(TESSERA_SERVER, {"--backend=tpu"});
  EXPECT_FALSE(nonsense.serving());
  EXPECT_EQ(nonsense.Wait(), 64);
  const TemporaryFolder folder;
  const std::string self = folder.Path("names_itself");
  folder.Write("names_itself", "--flagfile=" + self + "\n");
  for (const std::string& file : {self, folder.Path(""), std::string("/no/such/file")}) {
    ServerProcess unread(TESSERA_SERVER, {"--flagfile=" + file});
    EXPECT_FALSE(unread.serving());
    EXPECT_EQ(unread.Wait(), 64) << file;
  }
  ServerProcess wrapped(TESSERA_SERVER, {"--listen=127.0.0.1:65536"});
  EXPECT_FALSE(wrapped.serving());
  EXPECT_EQ(wrapped.Wait(), 64);
  const ServerProcess first(TESSERA_SERVER, {});
  ASSERT_TRUE(first.serving());
  ServerProcess second(TESSERA_SERVER, {"--listen=" + first.target()});
  EXPECT_FALSE(second.serving());
  EXPECT_EQ(second.Wait(), 69);
}

TEST_F(ProcessTest, FlagsComeFromAFile) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("flags", "# a comment\n--max_queue_requests=17\n--staging_bytes=8MiB\n");
  const ServerProcess process(TESSERA_SERVER, {"--flagfile=" + path});
  ASSERT_TRUE(process.serving());
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(v1::ServerService::NewStub(Connect(process))->GetServerInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.limits().max_queue_requests(), 17u);
  EXPECT_EQ(info.occupancy().staging_bytes(), 8u << 20);
}

}  // namespace
}  // namespace tessera::testing
