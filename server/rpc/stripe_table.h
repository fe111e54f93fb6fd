// Striped calls whose streams have not all come yet: where a stream finds the call that it carries a part of.
#ifndef TESSERA_SERVER_RPC_STRIPE_TABLE_H_
#define TESSERA_SERVER_RPC_STRIPE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/attend_environment.h"
#include "server/rpc/stream_call.h"
#include "tessera/v1/attention.pb.h"

namespace tessera {

// Thread-safe. An entry lives from the first stream to the last, at most AttendLimits::stripe_timeout; a call that ends
// in between, or was refused for want of room, stays as a mark, so that late streams get the same answer and do not
// begin it anew. Of a header that is invalid nothing is kept: every stream brings its own. Entries are of fixed size,
// and one tenant may have half of them. Tenants do not see each other's transfers. The deadline
// watch must be stopped before the table is destroyed.
class StripeTable {
 public:
  using CreateFn = std::function<absl::StatusOr<std::shared_ptr<StreamCall>>()>;

  explicit StripeTable(const AttendEnvironment& environment) : environment_(environment) {}
  StripeTable(const StripeTable&) = delete;
  StripeTable& operator=(const StripeTable&) = delete;

  // The call of `stripe.transfer`, made by `create` for its first stream, under the table's lock. Errors:
  // INVALID_ARGUMENT for a stripe that says nonsense or differs from the first (which also ends the call),
  // RESOURCE_EXHAUSTED where too many calls wait, and what `create` said to the first stream. `*late` says whether the
  // call was there before: then its ending is counted for all of its streams, an error given here included.
  absl::StatusOr<std::shared_ptr<StreamCall>> FindOrCreate(const std::string& tenant, const v1::Stripe& stripe,
                                                           const v1::AttendHeader& header, const CreateFn& create,
                                                           bool* late);

  // Drops the entry if `call`, to which a stream has just been joined, has all of its streams now.
  void DropIfJoined(const std::string& tenant, const v1::Stripe& stripe, const StreamCall& call);

  size_t size() const;

 private:
  using Key = std::pair<std::string, std::string>;  // tenant, transfer

  // Tells headers apart without keeping them.
  struct Fingerprint {
    size_t bytes;
    absl::uint128 hash;

    friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
  };

  struct Entry {
    absl::StatusOr<std::shared_ptr<StreamCall>> call;
    Fingerprint header;
    uint32_t count = 0;
    uint64_t generation = 0;  // tells it from a later entry of the same key
    DeadlineWatch::Token token;
  };

  static Fingerprint FingerprintOf(const v1::AttendHeader& header);

  absl::Status CheckRoom(const std::string& tenant) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(absl::flat_hash_map<Key, Entry>::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends and drops the entry, unless it has gone already.
  void Expire(const Key& key, uint64_t generation);

  const AttendEnvironment& environment_;
  mutable absl::Mutex mutex_;
  uint64_t next_generation_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<Key, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, int64_t> tenant_entries_ ABSL_GUARDED_BY(mutex_);  // none is 0
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_STRIPE_TABLE_H_
