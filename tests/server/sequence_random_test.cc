// Random calls on resident sequences by several tenants at once, with forks, rollbacks, cancels at any moment,
// callers that vanish, too few pages, so that idle sequences wait on the host, steps that fail on the device or take
// their time, and leases that end: every answer is as defined, and in the end no page is left.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/random/seed.h"
#include "tests/server/await.h"
#include "tests/server/sequence_client.h"
#include "tests/server/test_server.h"

namespace tessera::testing {
namespace {

constexpr double kTolerance = 1e-5;
constexpr int kTenants = 3;
constexpr int kOperations = 400;  // of each tenant
constexpr size_t kMostSequences = 6;
constexpr uint64_t kLongest = 60;

CacheProfile Profile() {
  return {.name = "small",
          .layers = 2,
          .kv_heads = 1,
          .head_dim = 8,
          .dtype = DType::kFloat32,
          .page_tokens = 4,
          .pages = 40,  // too few for all that is wanted, those on the host included
          .host_pages = 4,
          .max_tokens = 100,
          .max_sequences = 64,
          .lease = absl::Seconds(25)};
}

std::string Cancelled(const char* where) { return absl::StrCat("tessera_cancelled_total{where=\"", where, "\"}"); }

// One tenant: calls one after the other, so that it knows what every sequence holds.
class Tenant {
 public:
  Tenant(const TestServer& server, int number, uint64_t seed)
      : name_(absl::StrCat("tenant-", number)), client_(server.NewChannel(), Profile(), name_, seed), rng_(seed) {}

  void Run() {
    for (int i = 0; i < kOperations; ++i) Operate();
  }

  int extended() const { return extended_; }
  // Calls on sequences whose leases were over.
  int expired() const { return expired_; }

 private:
  void Operate() {
    const uint64_t choice = rng_() % 20;
    if (sequences_.empty() || (choice % 7 == 0 && sequences_.size() < kMostSequences)) {
      v1::CreateSequencesResponse response;
      if (client_.Create(1, &response).ok()) {
        sequences_.push_back({.handle = response.sequences(0),
                              .k = std::vector<std::vector<float>>(2),
                              .v = std::vector<std::vector<float>>(2)});
      }
      return;
    }
    const size_t at = rng_() % sequences_.size();
    if (choice == 1) return Release(at);
    if (choice == 2) return Vanish(at);
    if (choice == 3) return Fork(at);
    if (choice == 4) return Truncate(at);
    Extend(/*cancel=*/choice == 5);
  }

  void Drop(size_t at) { sequences_.erase(sequences_.begin() + static_cast<ptrdiff_t>(at)); }

  void Release(size_t at) {
    EXPECT_LE(client_.Release({sequences_[at].handle}), 1u);
    Drop(at);
  }

  // Its pages come back with its lease.
  void Vanish(size_t at) { Drop(at); }

  void Fork(size_t at) {
    if (sequences_.size() >= kMostSequences) return;
    KnownSequence fork;
    const int64_t longest = static_cast<int64_t>(Tokens(sequences_[at]));
    const grpc::Status status =
        client_.Fork(sequences_[at], &fork, rng_() % 2 == 0 ? -1 : static_cast<int64_t>(rng_() % (longest + 1)));
    if (status.ok()) return sequences_.push_back(fork);
    if (status.error_code() == grpc::StatusCode::NOT_FOUND) return Drop(at);
    // A call that was cancelled may still be on the device.
    EXPECT_TRUE(status.error_code() == grpc::StatusCode::ABORTED ||
                status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED)
        << status.error_message();
  }

  void Truncate(size_t at) {
    const grpc::Status status = client_.Truncate(sequences_[at], rng_() % (Tokens(sequences_[at]) + 1));
    if (status.ok()) return;
    if (status.error_code() == grpc::StatusCode::NOT_FOUND) return Drop(at);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED) << status.error_message();
  }

  void Extend(bool cancel) {
    std::vector<KnownEntry> entries;
    for (KnownSequence& sequence : sequences_) {
      if (rng_() % 2 == 0) continue;
      const auto layer = static_cast<uint32_t>(rng_() % 2);
      const auto tokens = static_cast<uint32_t>(rng_() % 4 == 0 ? rng_() % 12 : 1);
      const bool full = sequence.k[layer].size() / 8 + tokens > kLongest;
      entries.push_back({&sequence, layer, tokens, full ? 0 : tokens});
    }
    if (entries.empty()) return;
    ExtendCall call(client_.stub(), client_.Request(entries), name_);
    if (cancel) {
      // Anywhere between its sending and its answer.
      absl::SleepFor(absl::Microseconds(rng_() % 1000));
      call.Cancel();
    }
    const grpc::Status& status = call.Await();
    switch (status.error_code()) {
      case grpc::StatusCode::OK:
        client_.Note(entries, call.request());
        EXPECT_LT(client_.Error(entries, call.request(), call.response()), kTolerance);
        ++extended_;
        return;
      case grpc::StatusCode::CANCELLED:
        return Forget(entries);
      case grpc::StatusCode::NOT_FOUND:
        ++expired_;
        return DropMissing();
      case grpc::StatusCode::INVALID_ARGUMENT:
        EXPECT_GT(Pages(entries), Profile().pages) << status.error_message();
        return;
      default:
        EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
    }
  }

  // Whether a call that was cancelled has been done is not known: it may even reach the server after the next one does.
  void Forget(const std::vector<KnownEntry>& entries) {
    for (const KnownEntry& entry : entries) client_.Release({entry.sequence->handle});
    DropMissing();
  }

  void DropMissing() {
    std::vector<KnownSequence> there;
    for (KnownSequence& sequence : sequences_) {
      v1::GetSequenceResponse info;
      if (client_.Get(sequence.handle, &info).ok()) there.push_back(std::move(sequence));
    }
    sequences_ = std::move(there);
  }

  // Of a call's sequences, where they share none.
  static int64_t Pages(const std::vector<KnownEntry>& entries) {
    int64_t pages = 0;
    for (const KnownEntry& entry : entries) {
      const uint64_t appended = entry.sequence->k[entry.layer].size() / 8 + entry.append_tokens;
      const auto tokens = static_cast<int64_t>(std::max(Tokens(*entry.sequence), appended));
      pages += (tokens + Profile().page_tokens - 1) / Profile().page_tokens;
    }
    return pages;
  }
  static uint64_t Tokens(const KnownSequence& sequence) {
    return std::max(sequence.k[0].size(), sequence.k[1].size()) / 8;
  }

  const std::string name_;
  SequenceClient client_;
  std::mt19937_64 rng_;
  std::vector<KnownSequence> sequences_;
  int extended_ = 0;
  int expired_ = 0;
};

TEST(SequenceRandomTest, NoPageIsLostOrSeenByAnother) {
  const uint64_t seed = RandomSeed();
  ServerConfig config = TestServer::Config();
  config.kv_profiles = {Profile()};
  TestServer server("run@50-60=resource_exhausted; run@100-250=delay:3s; run@300-302=resource_exhausted", config);
  std::vector<std::unique_ptr<Tenant>> tenants;
  std::vector<std::thread> threads;
  tenants.reserve(kTenants);
  threads.reserve(kTenants);
  for (int i = 0; i < kTenants; ++i) {
    tenants.push_back(std::make_unique<Tenant>(server, i, seed + static_cast<uint64_t>(i)));
  }
  for (const auto& tenant : tenants) threads.emplace_back([&tenant] { tenant->Run(); });
  std::atomic<bool> over = false;
  double most_on_host = 0;
  std::thread time([&] {
    for (int turn = 0; !over; ++turn) {
      server.clock().Advance(absl::Seconds(1));
      server.Info();  // paces it
      if (turn % 16 != 0) continue;
      most_on_host = std::max(most_on_host, server.Metrics()["tessera_kv_host_pages{profile=\"small\"}"]);
    }
  });
  for (std::thread& thread : threads) thread.join();
  over = true;
  time.join();
  int extended = 0, expired = 0;
  for (const auto& tenant : tenants) {
    extended += tenant->extended();
    expired += tenant->expired();
  }
  EXPECT_GT(extended, kTenants * kOperations / 4);
  EXPECT_GT(expired, 0);
  EXPECT_GT(most_on_host, 0);
  const MetricsReader metrics = server.Metrics();
  EXPECT_GT(metrics["tessera_rejected_total{reason=\"kv_pages\"}"], 0);
  EXPECT_GT(metrics[Cancelled("queue")] + metrics[Cancelled("run")], 0) << "not all before they came";
  server.AwaitIdle();
  // The last leases.
  Await("every page", [&] {
    server.clock().Advance(absl::Minutes(1));
    const MetricsReader now = server.Metrics();
    return now["tessera_kv_pages{profile=\"small\",state=\"used\"}"] == 0 &&
           now["tessera_kv_sequences{profile=\"small\"}"] == 0;
  });
  EXPECT_EQ(server.Metrics()["tessera_kv_pages{profile=\"small\",state=\"free\"}"], Profile().pages);
  EXPECT_EQ(server.Metrics()["tessera_kv_host_pages{profile=\"small\"}"], 0);
}

}  // namespace
}  // namespace tessera::testing
