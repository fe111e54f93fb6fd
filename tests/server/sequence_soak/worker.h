// One caller of the soak of resident sequences: random operations, one after the other, until somebody kills it.
#ifndef TESSERA_TESTS_SERVER_SEQUENCE_SOAK_WORKER_H_
#define TESSERA_TESTS_SERVER_SEQUENCE_SOAK_WORKER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "server/request/cache_profile.h"
#include "tessera/v1/sequence.grpc.pb.h"
#include "tests/server/sequence_soak/ledger.h"

namespace tessera::testing {

// What all workers' sequences are like: pages and sequences are too few for all that is wanted.
CacheProfile SoakProfile(absl::Duration lease);

// Knows what its sequences hold without keeping it: all rows of V of a sequence and its forks are the same number, and
// so must every row of o be that sees a key. A row of anybody else would show, for numbers are one family's, those of
// one tenant positive and those of the other negative.
//
// One thread's.
class SoakWorker {
 public:
  static constexpr int kTenants = 2;

  // Worker `number` is of tenant `number` % kTenants. The ledger outlives it.
  SoakWorker(const std::shared_ptr<grpc::Channel>& channel, const CacheProfile& profile, int number, int workers,
             uint64_t seed, SoakLedger* ledger);

  // Performs the next operation. False, having said why on standard error, where an answer is not one that it may have.
  bool Step();

 private:
  struct Owned {
    std::string handle;
    float number;                   // every element of V
    std::vector<uint64_t> lengths;  // of each layer
    absl::Time used;                // no later than the server's last renewal
  };
  struct Left {
    std::string handle;
    absl::Time since;  // no earlier than the server's last renewal
  };
  struct Entry {
    size_t owned;
    uint32_t layer;
    uint32_t q_tokens;
    uint32_t append_tokens;
  };

  void Prepare(grpc::ClientContext& context) const;
  bool Fail(const char* operation, const grpc::Status& status) const;

  bool Create();
  // Uses it no more; after its lease it must not be found.
  bool Leave(size_t at);
  bool CheckLeft();
  bool Fork(size_t at);
  bool Truncate(size_t at);
  bool Release(size_t at);
  bool Inspect(size_t at);
  bool Extend(bool cancel);
  bool TryForeign();

  std::vector<Entry> ChooseEntries();
  v1::ExtendRequest Request(const std::vector<Entry>& entries);
  bool CheckAnswer(const std::vector<Entry>& entries, const v1::ExtendResponse& response);
  // A call on `at` found nothing: it is forgotten. False where its lease cannot have been over.
  bool Lost(const char* operation, size_t at);
  void Forget(size_t at) { owned_.erase(owned_.begin() + static_cast<ptrdiff_t>(at)); }
  bool Count(SoakOutcome outcome) {
    ledger_->Count(outcome);
    return true;
  }

  const CacheProfile profile_;
  const int number_;
  const int workers_;
  const std::string tenant_;
  SoakLedger* const ledger_;
  const std::unique_ptr<v1::SequenceService::Stub> stub_;
  std::mt19937_64 rng_;
  std::vector<Owned> owned_;
  std::deque<Left> left_;
};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SERVER_SEQUENCE_SOAK_WORKER_H_
