// What every flag that is a number takes and refuses.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/config/byte_size.h"
#include "server/config/flags.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

struct Row {
  const char* flag;
  std::vector<const char*> taken;    // the least and the most
  std::vector<const char*> refused;  // just below and just above, where its type can say that
};

constexpr char kMost[] = "9223372036854775807";

const std::vector<Row>& Table() {
  static const auto* const table = new std::vector<Row>{
      {"threads", {"0", "4096"}, {"-1", "4097"}},
      {"memory_fraction", {"1e-300", "0.9999"}, {"0", "1"}},
      {"slots", {"0", "64"}, {"-1", "65"}},
      {"staging_bytes", {"1MiB", kMost}, {"0", "1048575"}},
      {"max_inflight_bytes", {"1MiB", kMost}, {"0", "1048575"}},
      {"max_request_bytes", {"1", kMost}, {"0"}},
      {"max_request_cost", {"0", "1152921504606846976"}, {"-1", "1152921504606846977"}},
      {"max_sequences", {"1", "2147483647"}, {"0", "2147483648"}},
      {"max_sequence_tokens", {"1", "4294967296"}, {"0", "4294967297"}},
      {"max_heads", {"1", "2147483647"}, {"0"}},
      {"max_stream_calls", {"1", "2147483647"}, {"0", "2147483648"}},
      {"chunk_bytes", {"1", "1073741823"}, {"0", "1GiB"}},
      {"max_outbox_bytes", {"1", kMost}, {"0"}},
      {"max_striped_calls", {"1", "2147483647"}, {"0", "2147483648"}},
      {"stripe_timeout", {"1ns", "inf"}, {"0"}},
      {"assembly_timeout", {"1ns", "inf"}, {"0"}},
      {"max_assembly_time", {"1ns", "inf"}, {"0"}},
      {"send_timeout", {"1ns", "inf"}, {"0"}},
      {"max_tenant_memory_share", {"1e-300", "1"}, {"0", "1.0000001"}},
      {"max_region_bytes", {"64KiB", "64TiB"}, {"0", "1", "70368744177665"}},
      {"max_regions", {"1", "65536"}, {"0", "65537"}},
      {"max_queue_requests", {"1", "2147483647"}, {"0", "2147483648"}},
      {"max_queue_bytes", {"1", kMost}, {"0"}},
      {"max_tenant_share", {"1e-300", "1"}, {"0", "1.0000001"}},
      {"max_batch_requests", {"1", kMost}, {"0"}},
      {"max_batch_tokens", {"1", kMost}, {"0"}},
      {"max_batch_cost", {"0", kMost}, {"-1"}},
      {"max_batch_sequences", {"1", kMost}, {"0"}},
      {"light_cost", {"0", kMost}, {"-1"}},
      {"batch_delay", {"0", "1s"}, {"1001ms"}},
      {"slot_lookout", {"0", "1s"}, {"1001ms"}},
      {"fair_quantum", {"1", kMost}, {"0"}},
      {"large_cost", {"1", kMost}, {"0"}},
      {"max_consecutive_large", {"1", "2147483647"}, {"0"}},
      {"hang_timeout", {"0", "inf"}, {}},
      {"max_message_bytes", {"1KiB", "2147483631"}, {"0", "1023", "2147483632"}},
      {"transport_bytes", {"1344MiB", kMost}, {"0", "1409286143"}},
      {"max_connections", {"1", "2147483647"}, {"0"}},
      {"max_concurrent_streams", {"1", "2147483647"}, {"0"}},
      {"min_ping_interval", {"0", "576h"}, {"577h", "inf"}},
      {"keepalive", {"1s", "576h"}, {"0", "999ms", "577h", "inf"}},
      {"handshake_timeout", {"100ms", "576h"}, {"0", "99ms", "577h", "inf"}},
      {"drain_grace", {"0", "24h"}, {"24h1ns", "inf"}},
      {"drain_timeout", {"0", "inf"}, {}},
  };
  return *table;
}

// What no number of the server's may be.
std::vector<const char*> NeverTaken(const absl::CommandLineFlag& flag) {
  if (flag.IsOfType<absl::Duration>()) return {"-1ns", "-inf", "nan", "1e400s", "1", ""};
  if (flag.IsOfType<double>()) return {"-1", "nan", "inf", "-inf", "1e999", ""};
  return {"-1", "-9223372036854775808", "9223372036854775808", "8388608TiB", "1.5", "nan", "inf", ""};
}

// Of a command line that says --backend=backend --flag=value and nothing else.
absl::Status StatusWith(const char* backend, const Row& row, const char* value) {
  const absl::FlagSaver saver;
  std::string error;
  if (!absl::FindCommandLineFlag("backend")->ParseFrom(backend, &error)) return absl::InternalError(error);
  // Room for the largest message.
  if (!absl::FindCommandLineFlag("transport_bytes")->ParseFrom("1TiB", &error)) return absl::InternalError(error);
  if (!absl::FindCommandLineFlag(row.flag)->ParseFrom(value, &error)) {
    return absl::InvalidArgumentError(absl::StrCat(row.flag, " cannot be parsed: ", error));
  }
  std::string program = "tessera-server";
  char* argv[] = {program.data()};
  return ParseCommandLine(1, argv).status();
}

// Also what the backend makes no use of.
TEST(NumericFlagsTest, EachTakesItsRangeAndNothingElseOnEveryBackend) {
  for (const char* backend : {"auto", "cpu", "cuda"}) {
    for (const Row& row : Table()) {
      const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(row.flag);
      ASSERT_NE(flag, nullptr) << row.flag;
      for (const char* value : row.taken) {
        EXPECT_EQ(StatusWith(backend, row, value), absl::OkStatus()) << backend << " --" << row.flag << "=" << value;
      }
      std::vector<const char*> refused = row.refused;
      for (const char* value : NeverTaken(*flag)) refused.push_back(value);
      for (const char* value : refused) {
        const absl::Status status = StatusWith(backend, row, value);
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << backend << " --" << row.flag << "=" << value;
        EXPECT_THAT(std::string(status.message()), HasSubstr(row.flag));
      }
    }
  }
}

TEST(NumericFlagsTest, TheTableHasThemAll) {
  std::set<std::string> in_table;
  for (const Row& row : Table()) in_table.insert(row.flag);
  std::set<std::string> numeric;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    const bool number = flag->IsOfType<int>() || flag->IsOfType<int64_t>() || flag->IsOfType<double>() ||
                        flag->IsOfType<absl::Duration>() || flag->IsOfType<ByteSize>();
    if (number && absl::EndsWith(flag->Filename(), "server/config/flags.cc")) numeric.insert(std::string(name));
  }
  EXPECT_EQ(in_table, numeric);
}

}  // namespace
}  // namespace tessera
