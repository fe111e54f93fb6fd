// What a server's metrics say.
#ifndef TESSERA_TESTS_SERVER_METRICS_READER_H_
#define TESSERA_TESTS_SERVER_METRICS_READER_H_

#include <map>
#include <string>

namespace tessera::testing {

class MetricsReader {
 public:
  // Reads the text that a Prometheus server would; lines without a sample are passed over.
  explicit MetricsReader(const std::string& text);
  // Scrapes 127.0.0.1:`port`.
  static MetricsReader Scrape(int port);

  // The sample written `name{label="value",...}`, labels in alphabetical order; NaN where there is none.
  double operator[](const std::string& sample) const;
  bool empty() const { return samples_.empty(); }

 private:
  std::map<std::string, double> samples_;
};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_METRICS_READER_H_
