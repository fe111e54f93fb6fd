#include "server/metrics/process_collector.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>

#include "prometheus/client_metric.h"
#include "prometheus/metric_type.h"
#include "server/metrics/metric_names.h"

namespace tessera {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

// The fields of proc(5)'s stat that are exported, in its units.
struct ProcStat {
  double user_ticks = 0;
  double system_ticks = 0;
  double threads = 0;
  double start_ticks = 0;  // since boot
  double virtual_bytes = 0;
  double resident_pages = 0;
};

std::optional<ProcStat> ReadStat() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // The command's name is in parentheses and may hold spaces: count fields from behind it. Field 3 is the first.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  ProcStat stat;
  std::string field;
  for (int index = 3; fields >> field; ++index) {
    double* target = index == 14   ? &stat.user_ticks
                     : index == 15 ? &stat.system_ticks
                     : index == 20 ? &stat.threads
                     : index == 22 ? &stat.start_ticks
                     : index == 23 ? &stat.virtual_bytes
                     : index == 24 ? &stat.resident_pages
                                   : nullptr;
    if (target != nullptr) *target = std::stod(field);
    if (index == 24) return stat;
  }
  return std::nullopt;
}

// Seconds since 1970 at which the machine started.
std::optional<double> BootTime() {
  std::ifstream file("/proc/stat");
  std::string word;
  while (file >> word) {
    double seconds;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return std::nullopt;
}

std::optional<double> OpenFds() {
  std::error_code error;
  std::filesystem::directory_iterator fds("/proc/self/fd", error);
  if (error) return std::nullopt;
  // The iterator itself holds one.
  return static_cast<double>(std::distance(begin(fds), end(fds))) - 1;
}

MetricFamily Single(const char* name, const char* help, MetricType type, double value) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  if (type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  return family;
}

}  // namespace

std::vector<MetricFamily> ProcessCollector::Collect() const {
  std::vector<MetricFamily> families;
  if (const std::optional<ProcStat> stat = ReadStat()) {
    const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
    families.push_back(Single(metric_names::kProcessCpuSeconds, "User and system time spent.", MetricType::Counter,
                              (stat->user_ticks + stat->system_ticks) / ticks_per_second));
    families.push_back(Single(metric_names::kProcessResidentBytes, "Resident memory.", MetricType::Gauge,
                              stat->resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE))));
    families.push_back(
        Single(metric_names::kProcessVirtualBytes, "Virtual memory.", MetricType::Gauge, stat->virtual_bytes));
    families.push_back(Single(metric_names::kProcessThreads, "Threads.", MetricType::Gauge, stat->threads));
    if (const std::optional<double> boot = BootTime()) {
      families.push_back(Single(metric_names::kProcessStartTime, "Start of the process, in Unix time.",
                                MetricType::Gauge, *boot + stat->start_ticks / ticks_per_second));
    }
  }
  if (const std::optional<double> fds = OpenFds()) {
    families.push_back(Single(metric_names::kProcessOpenFds, "Open file descriptors.", MetricType::Gauge, *fds));
  }
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    families.push_back(Single(metric_names::kProcessMaxFds, "File descriptors the process may open.", MetricType::Gauge,
                              static_cast<double>(limit.rlim_cur)));
  }
  return families;
}

}  // namespace tessera
