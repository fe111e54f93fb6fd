#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "server/metrics/exposer.h"
#include "server/metrics/process_collector.h"
#include "server/metrics/scrape_gauges.h"
#include "server/metrics/server_metrics.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const prometheus::Collectable& collectable) {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, collectable.Collect());
  return out.str();
}

// A connection to a port of the loopback; -1 where there is none.
int ConnectTo(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
  close(fd);
  return -1;
}

void Send(int fd, const std::string& text) {
  EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

std::string HttpGet(int port, const std::string& path) {
  const int fd = ConnectTo(port);
  if (fd < 0) return "";
  Send(fd, "GET " + path + " HTTP/1.0\r\n\r\n");
  std::string body;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) body.append(buffer, static_cast<size_t>(n));
  close(fd);
  return body;
}

class ServerMetricsTest : public ::testing::Test {
 protected:
  std::string Text() const { return tessera::Text(*metrics_.registry()); }

  ServerMetrics metrics_{{"1.2.3", "abc", "cpu"}, {{"0", "Test CPU", "cpu"}}};
};

TEST_F(ServerMetricsTest, EveryLabelValueIsThereBeforeTheFirstRequest) {
  const std::string text = Text();
  for (const char* reason : kRejectReasonLabels) {
    EXPECT_THAT(text, HasSubstr(std::string("tessera_rejected_total{reason=\"") + reason + "\"} 0"));
  }
  for (const char* where : kStationLabels) {
    EXPECT_THAT(text, HasSubstr(std::string("tessera_expired_total{where=\"") + where + "\"} 0"));
    EXPECT_THAT(text, HasSubstr(std::string("tessera_cancelled_total{where=\"") + where + "\"} 0"));
  }
  for (const char* stage : kStageLabels) {
    EXPECT_THAT(text, HasSubstr(std::string("tessera_stage_seconds_count{stage=\"") + stage + "\"} 0"));
  }
  EXPECT_THAT(text, HasSubstr("tessera_build_info{backend=\"cpu\",revision=\"abc\",version=\"1.2.3\"} 1"));
  EXPECT_THAT(text, HasSubstr("tessera_device_info{device=\"0\",kernel=\"cpu\",name=\"Test CPU\"} 1"));
}

TEST_F(ServerMetricsTest, RpcsAreCountedByMethodAndCode) {
  metrics_.RpcStarted(RpcMethod::kAttend);
  metrics_.RpcHandled(RpcMethod::kAttend, 8, 15e-6);
  const std::string labels = "grpc_method=\"Attend\",grpc_service=\"tessera.v1.AttentionService\",grpc_type=\"unary\"";
  EXPECT_THAT(Text(), HasSubstr("grpc_server_started_total{" + labels + "} 1"));
  EXPECT_THAT(Text(), HasSubstr("grpc_server_handled_total{grpc_code=\"ResourceExhausted\"," + labels + "} 1"));
  EXPECT_THAT(Text(), HasSubstr("grpc_server_handling_seconds_bucket{" + labels + ",le=\"1e-05\"} 0"));
  EXPECT_THAT(Text(), HasSubstr("grpc_server_handling_seconds_bucket{" + labels + ",le=\"2e-05\"} 1"));
}

TEST_F(ServerMetricsTest, CodeOutsideTheSetCountsAsUnknown) {
  metrics_.RpcHandled(RpcMethod::kPlanTiles, 99, 0);
  metrics_.RpcHandled(RpcMethod::kPlanTiles, -1, 0);
  EXPECT_THAT(Text(), HasSubstr("grpc_server_handled_total{grpc_code=\"Unknown\",grpc_method=\"PlanTiles\","
                                "grpc_service=\"tessera.v1.ServerService\",grpc_type=\"unary\"} 2"));
}

TEST_F(ServerMetricsTest, BatchFeedsDeviceCounters) {
  BatchCounts counts;
  counts.requests = 3;
  counts.tokens = 48;
  counts.compute_seconds = 1e-3;
  counts.flops = 4096;
  counts.hbm_bytes = 512;
  counts.tiles_computed = 5;
  counts.tiles_skipped = 2;
  metrics_.Batch(0, 2, counts);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("tessera_batches_total{kernel=\"cpu\"} 1"));
  EXPECT_THAT(text, HasSubstr("tessera_flops_total{device=\"0\",dtype=\"bfloat16\",kernel=\"cpu\"} 4096"));
  EXPECT_THAT(text, HasSubstr("tessera_hbm_bytes_total{device=\"0\",kernel=\"cpu\"} 512"));
  EXPECT_THAT(text, HasSubstr("tessera_tiles_total{result=\"computed\"} 5"));
  EXPECT_THAT(text, HasSubstr("tessera_tiles_total{result=\"skipped\"} 2"));
  EXPECT_THAT(text, HasSubstr("tessera_batch_requests_sum 3"));
  EXPECT_THAT(text, HasSubstr("tessera_batch_tokens_sum 48"));
  EXPECT_THAT(text, HasSubstr("tessera_stage_seconds_count{stage=\"compute\"} 1"));
  // A device without copies has no copy times.
  EXPECT_THAT(text, HasSubstr("tessera_stage_seconds_count{stage=\"copy_in\"} 0"));
}

TEST(ScrapeGaugesTest, ValuesAreReadAtEachScrape) {
  ScrapeGauges gauges;
  double used = 1;
  gauges.Add("memory", "help", {{"kind", "used"}}, [&] { return used; });
  gauges.Add("memory", "help", {{"kind", "total"}}, [] { return 10; });
  EXPECT_THAT(Text(gauges), HasSubstr("memory{kind=\"used\"} 1\n"));
  used = 7;
  EXPECT_THAT(Text(gauges), HasSubstr("memory{kind=\"used\"} 7\n"));
  EXPECT_THAT(Text(gauges), HasSubstr("memory{kind=\"total\"} 10\n"));
  EXPECT_EQ(gauges.Collect().size(), 1u);
}

TEST(ScrapeGaugesTest, CountersAreCounters) {
  ScrapeGauges gauges;
  gauges.Add(
      "moved_total", "help", {}, [] { return 3; }, prometheus::MetricType::Counter);
  EXPECT_THAT(Text(gauges), HasSubstr("# TYPE moved_total counter\nmoved_total 3\n"));
}

TEST(ProcessCollectorTest, ReportsThisProcess) {
  double resident = 0, open_fds = 0, start = 0, threads = 0;
  for (const prometheus::MetricFamily& family : ProcessCollector().Collect()) {
    if (family.name == "process_resident_memory_bytes") resident = family.metric[0].gauge.value;
    if (family.name == "process_open_fds") open_fds = family.metric[0].gauge.value;
    if (family.name == "process_start_time_seconds") start = family.metric[0].gauge.value;
    if (family.name == "process_threads") threads = family.metric[0].gauge.value;
  }
  EXPECT_GT(resident, 1e6);
  EXPECT_GE(open_fds, 3);
  EXPECT_GE(threads, 1);
  EXPECT_LE(start, static_cast<double>(time(nullptr)) + 1);
  EXPECT_GT(start, static_cast<double>(time(nullptr)) - 3600);
}

TEST(ProcessCollectorTest, OpenFdsFollowsTheProcess) {
  const auto open_fds = [] {
    for (const prometheus::MetricFamily& family : ProcessCollector().Collect()) {
      if (family.name == "process_open_fds") return family.metric[0].gauge.value;
    }
    return -1.0;
  };
  const double before = open_fds();
  const int fd = dup(0);
  EXPECT_EQ(open_fds(), before + 1);
  close(fd);
}

TEST(MetricsExposerTest, ServesOnTheChosenPort) {
  auto gauges = std::make_shared<ScrapeGauges>();
  gauges->Add("answer", "help", {}, [] { return 42; });
  auto exposer = MetricsExposer::Start("127.0.0.1:0", {gauges});
  ASSERT_TRUE(exposer.ok()) << exposer.status();
  ASSERT_GT((*exposer)->port(), 0);
  EXPECT_THAT(HttpGet((*exposer)->port(), "/metrics"), HasSubstr("answer 42"));
  EXPECT_THAT(HttpGet((*exposer)->port(), "/other"), Not(HasSubstr("answer")));
}

TEST(MetricsExposerTest, RequestsThatNeverEndDoNotKeepScrapesOut) {
  auto gauges = std::make_shared<ScrapeGauges>();
  gauges->Add("answer", "help", {}, [] { return 42; });
  auto exposer = MetricsExposer::Start("127.0.0.1:0", {gauges});
  ASSERT_TRUE(exposer.ok()) << exposer.status();
  std::vector<int> unfinished;
  for (int i = 0; i < 6; ++i) {
    unfinished.push_back(ConnectTo((*exposer)->port()));
    ASSERT_GE(unfinished.back(), 0);
    Send(unfinished.back(), "GET /metrics HTTP/1.1\r\nHost: x\r\n");
  }
  const auto started = std::chrono::steady_clock::now();
  EXPECT_THAT(HttpGet((*exposer)->port(), "/metrics"), HasSubstr("answer 42"));
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(20)) << "30 s is the library's time-out";
  for (int fd : unfinished) close(fd);
}

TEST(MetricsExposerTest, PortInUseIsUnavailable) {
  auto first = MetricsExposer::Start("127.0.0.1:0", {});
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = MetricsExposer::Start("127.0.0.1:" + std::to_string((*first)->port()), {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tessera
