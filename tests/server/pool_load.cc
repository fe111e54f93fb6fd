#include "tests/server/pool_load.h"

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/sequence_client.h"

namespace tessera::testing {
namespace {

constexpr size_t kMostSequences = 5;  // of a caller
constexpr size_t kLongest = 60;       // tokens
// How often a caller asks again before it lets a sequence go.
constexpr int kPatience = 6;

class PoolCaller {
 public:
  PoolCaller(const std::shared_ptr<grpc::Channel>& channel, const CacheProfile& profile, int number, uint64_t seed)
      : profile_(profile),
        tenant_(absl::StrCat("tenant-", number)),
        client_(channel, profile, tenant_, seed),
        rng_(seed) {}

  void Run(int operations) {
    for (int i = 0; i < operations && report_.failed == 0; ++i) Operate();
    while (!sequences_.empty() && report_.failed == 0) {
      if (Extend(sequences_.front(), /*q_tokens=*/2, /*append_tokens=*/0)) {
        ++report_.read_at_end;
        Release(0);
      }
    }
  }
  const PoolReport& report() const { return report_; }

 private:
  size_t Below(size_t limit) { return rng_() % limit; }
  size_t Tokens(const KnownSequence& sequence) const {
    return sequence.k[0].size() / static_cast<size_t>(profile_.kv_heads * profile_.head_dim);
  }

  void Operate() {
    const size_t choice = Below(10);
    if (sequences_.empty() || (choice < 2 && sequences_.size() < kMostSequences)) {
      sequences_.push_back(client_.Create());
      return Append(sequences_.size() - 1, 1 + Below(24));
    }
    const size_t at = Below(sequences_.size());
    if (choice == 2 && sequences_.size() < kMostSequences) return Fork(at);
    if (choice == 3) {
      Extend(sequences_[at], 1 + Below(3), 0);
      return;
    }
    Append(at, Below(4) == 0 ? 1 + Below(12) : 1);
  }

  void Fork(size_t at) {
    KnownSequence fork;
    const grpc::Status status =
        client_.Fork(sequences_[at], &fork, static_cast<int64_t>(Below(Tokens(sequences_[at]) + 1)));
    if (!status.ok()) return Fail("fork", status);
    sequences_.push_back(std::move(fork));
  }

  void Append(size_t at, size_t tokens) {
    if (Tokens(sequences_[at]) + tokens > kLongest) return Release(at);
    Extend(sequences_[at], tokens, tokens);
  }

  // All layers in one call. False where it was not done: a sequence has then been let go, or the caller has failed.
  bool Extend(KnownSequence& sequence, size_t q_tokens, size_t append_tokens) {
    std::vector<KnownEntry> entries;
    for (int layer = 0; layer < profile_.layers; ++layer) {
      entries.push_back({&sequence, static_cast<uint32_t>(layer), static_cast<uint32_t>(q_tokens),
                         static_cast<uint32_t>(append_tokens)});
    }
    const v1::ExtendRequest request = client_.Request(entries);
    for (int attempt = 0; attempt < kPatience; ++attempt) {
      ExtendCall call(client_.stub(), request, tenant_);
      const grpc::Status& status = call.Await();
      if (status.ok()) {
        client_.Note(entries, request);
        report_.worst_error = std::max(report_.worst_error, client_.Error(entries, request, call.response()));
        ++report_.extended;
        return true;
      }
      if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED || call.RetryPushback().empty()) {
        Fail("extend", status);
        return false;
      }
      ++report_.refused;
    }
    ++report_.let_go;
    Release(Below(sequences_.size()));
    return false;
  }

  void Release(size_t at) {
    if (client_.Release({sequences_[at].handle}) != 1) Fail("release", {grpc::StatusCode::NOT_FOUND, "it was there"});
    sequences_.erase(sequences_.begin() + static_cast<ptrdiff_t>(at));
  }

  void Fail(const char* what, const grpc::Status& status) {
    ++report_.failed;
    std::cerr << tenant_ << ": " << what << ": code " << status.error_code() << " " << status.error_message() << "\n";
  }

  const CacheProfile profile_;
  const std::string tenant_;
  SequenceClient client_;
  std::mt19937_64 rng_;
  std::vector<KnownSequence> sequences_;
  PoolReport report_;
};

}  // namespace

CacheProfile PoolProfile(const std::string& name, int32_t host_pages, bool float8) {
  return {.name = name,
          .layers = 2,
          .kv_heads = 2,
          .head_dim = 16,
          .dtype = DType::kFloat32,
          .float8 = float8,
          .page_tokens = 4,
          .pages = 48,
          .host_pages = host_pages,
          .max_tokens = 64,
          .max_sequences = 256};
}

PoolReport RunPoolLoad(const std::function<std::shared_ptr<grpc::Channel>()>& connect, const CacheProfile& profile,
                       const PoolLoad& load) {
  std::vector<std::unique_ptr<PoolCaller>> callers;
  std::vector<std::thread> threads;
  for (int i = 0; i < load.callers; ++i) {
    callers.push_back(std::make_unique<PoolCaller>(connect(), profile, i, load.seed + static_cast<uint64_t>(i)));
  }
  for (const auto& caller : callers) threads.emplace_back([&load, &caller] { caller->Run(load.operations); });
  for (std::thread& thread : threads) thread.join();
  PoolReport sum;
  for (const auto& caller : callers) {
    const PoolReport& report = caller->report();
    sum.extended += report.extended;
    sum.refused += report.refused;
    sum.read_at_end += report.read_at_end;
    sum.let_go += report.let_go;
    sum.failed += report.failed;
    sum.worst_error = std::max(sum.worst_error, report.worst_error);
  }
  return sum;
}

std::string WrongInPoolMetrics(const MetricsReader& metrics, const CacheProfile& profile, const PoolReport& report) {
  std::string wrong;
  const auto expect = [&wrong](const std::string& what, double value, bool good) {
    if (!good) absl::StrAppend(&wrong, what, " is ", value, "\n");
  };
  const auto of_profile = [&](const char* name, const char* more) {
    return absl::StrCat(name, "{profile=\"", profile.name, "\"", more, "}");
  };
  const auto equals = [&](const std::string& sample, double value) {
    expect(absl::StrCat(sample, ", to be ", value, ","), metrics[sample], metrics[sample] == value);
  };
  equals("tessera_rejected_total{reason=\"kv_pages\"}", static_cast<double>(report.refused));
  equals(of_profile("tessera_kv_pages", ",state=\"used\""), 0);
  equals(of_profile("tessera_kv_pages", ",state=\"free\""), profile.pages);
  equals(of_profile("tessera_kv_host_pages", ""), 0);
  equals(of_profile("tessera_kv_sequences", ""), 0);
  for (const char* to : {"host", "device"}) {
    const std::string sample = of_profile("tessera_kv_moved_pages_total", absl::StrCat(",to=\"", to, "\"").c_str());
    expect(sample, metrics[sample], profile.host_pages > 0 ? metrics[sample] > 0 : metrics[sample] == 0);
  }
  return wrong;
}

}  // namespace tessera::testing
