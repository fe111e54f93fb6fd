// A pool of pages under the load of more sequences than it holds: callers that append, read, fork and let go, are
// refused and come again, and check every answer against the definition.
#ifndef TESSERA_TESTS_SERVER_POOL_LOAD_H_
#define TESSERA_TESTS_SERVER_POOL_LOAD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "grpcpp/channel.h"
#include "server/request/cache_profile.h"
#include "tests/server/metrics_reader.h"

namespace tessera::testing {

struct PoolLoad {
  int callers = 6;       // side by side, each a tenant with a connection
  int operations = 150;  // of each
  uint64_t seed = 0;
};

// What the callers saw.
struct PoolReport {
  int64_t extended = 0;     // calls that were done
  int64_t refused = 0;      // for want of pages, and told when to come again
  int64_t read_at_end = 0;  // sequences whose every row was still there when all had been done
  int64_t let_go = 0;       // sequences that were released for others' sake, after refusals
  int64_t failed = 0;       // answers that a call may not have; the first are on standard error
  double worst_error = 0;   // of all answers
};

// A profile of few pages, that callers want several times over. `host_pages`: beside them.
CacheProfile PoolProfile(const std::string& name, int32_t host_pages, bool float8 = false);

// Runs the load; at the end no caller has a sequence.
PoolReport RunPoolLoad(const std::function<std::shared_ptr<grpc::Channel>()>& connect, const CacheProfile& profile,
                       const PoolLoad& load);

// The server's view of the same. Its pages must all be free again. Empty where all is as it must be, otherwise what is
// not. REQUIRES: nothing but one load has been on the profile, and nothing but it has been refused.
std::string WrongInPoolMetrics(const MetricsReader& metrics, const CacheProfile& profile, const PoolReport& report);

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_POOL_LOAD_H_
