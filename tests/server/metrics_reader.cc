#include "tests/server/metrics_reader.h"

#include <limits>
#include <sstream>

#include "tests/server/http_get.h"

namespace tessera::testing {

MetricsReader MetricsReader::Scrape(int port) { return MetricsReader(HttpGet(port, "/metrics")); }

MetricsReader::MetricsReader(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.rfind(' ');
    if (line.empty() || line[0] == '#' || space == std::string::npos) continue;
    std::istringstream value(line.substr(space + 1));
    double number;
    if (value >> number) samples_[line.substr(0, space)] = number;
  }
}

double MetricsReader::operator[](const std::string& sample) const {
  const auto found = samples_.find(sample);
  return found == samples_.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

}  // namespace tessera::testing
