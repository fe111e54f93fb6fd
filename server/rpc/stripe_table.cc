#include "server/rpc/stripe_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/wire/stripe_limits.h"
#include "server/rpc/status.h"

namespace tessera {
namespace {

absl::Status CheckStripe(const v1::Stripe& stripe) {
  if (stripe.transfer().size() != wire::kTransferBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("stripe.transfer: ", stripe.transfer().size(), " bytes, must be ", wire::kTransferBytes));
  }
  if (stripe.count() < wire::kMinStripes || stripe.count() > wire::kMaxStripes) {
    return absl::InvalidArgumentError(
        absl::StrCat("stripe.count: ", stripe.count(), " is not in ", wire::kMinStripes, " to ", wire::kMaxStripes));
  }
  if (stripe.index() >= stripe.count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("stripe.index: ", stripe.index(), " is not below stripe.count, ", stripe.count()));
  }
  return absl::OkStatus();
}

}  // namespace

StripeTable::Fingerprint StripeTable::FingerprintOf(const v1::AttendHeader& header) {
  // FNV-1a of 128 bits. A caller who makes two headers collide deceives nobody but its own call.
  constexpr absl::uint128 kPrime = absl::MakeUint128(0x0000000001000000, 0x000000000000013b);
  absl::uint128 hash = absl::MakeUint128(0x6c62272e07bb0142, 0x62b821756295c58d);
  const std::string bytes = header.SerializeAsString();
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * kPrime;
  return {bytes.size(), hash};
}

absl::Status StripeTable::CheckRoom(const std::string& tenant) const {
  const AttendLimits& limits = environment_.limits;
  const int64_t share = std::max<int64_t>(1, limits.max_striped_calls / 2);
  const auto own = tenant_entries_.find(tenant);
  if (own != tenant_entries_.end() && own->second >= share) {
    return WithReason(
        absl::ResourceExhaustedError(absl::StrCat("stripe: ", own->second,
                                                  " striped calls of the tenant wait for their streams, as "
                                                  "many as one tenant may have")),
        RejectReason::kStripes);
  }
  if (static_cast<int64_t>(entries_.size()) >= limits.max_striped_calls) {
    return WithReason(absl::ResourceExhaustedError(
                          absl::StrCat("stripe: ", entries_.size(), " striped calls wait for their streams already")),
                      RejectReason::kStripes);
  }
  return absl::OkStatus();
}

void StripeTable::Erase(absl::flat_hash_map<Key, Entry>::iterator entry) {
  const auto own = tenant_entries_.find(entry->first.first);
  if (--own->second == 0) tenant_entries_.erase(own);
  entries_.erase(entry);
}

absl::StatusOr<std::shared_ptr<StreamCall>> StripeTable::FindOrCreate(const std::string& tenant,
                                                                      const v1::Stripe& stripe,
                                                                      const v1::AttendHeader& header,
                                                                      const CreateFn& create, bool* late) {
  *late = false;
  if (absl::Status status = CheckStripe(stripe); !status.ok()) return status;
  const Key key(tenant, stripe.transfer());
  const Fingerprint fingerprint = FingerprintOf(header);
  std::shared_ptr<StreamCall> differing;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) {
      if (absl::Status room = CheckRoom(tenant); !room.ok()) return room;
      absl::StatusOr<std::shared_ptr<StreamCall>> call = create();
      if (absl::IsInvalidArgument(call.status())) return call;
      const uint64_t generation = next_generation_++;
      const DeadlineWatch::Token token =
          environment_.deadlines->Add(environment_.clock->Now() + environment_.limits.stripe_timeout,
                                      [this, key, generation] { Expire(key, generation); });
      entries_.emplace(key, Entry{call, fingerprint, stripe.count(), generation, token});
      ++tenant_entries_[tenant];
      return call;
    }
    *late = true;
    const Entry& entry = found->second;
    if (!entry.call.ok() || (entry.count == stripe.count() && entry.header == fingerprint)) return entry.call;
    differing = *entry.call;
  }
  absl::Status status =
      absl::InvalidArgumentError("stripe: header and stripe.count must be the same on every stream of a call");
  differing->End(status);
  return status;
}

void StripeTable::DropIfJoined(const std::string& tenant, const v1::Stripe& stripe, const StreamCall& call) {
  if (!call.joined()) return;
  DeadlineWatch::Token token;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(Key(tenant, stripe.transfer()));
    if (found == entries_.end() || !found->second.call.ok()) return;
    if (found->second.call->get() != &call) return;
    token = found->second.token;
    Erase(found);
  }
  environment_.deadlines->Remove(token);
}

void StripeTable::Expire(const Key& key, uint64_t generation) {
  std::shared_ptr<StreamCall> call;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end() || found->second.generation != generation) return;
    if (found->second.call.ok()) call = *found->second.call;
    Erase(found);
  }
  if (call != nullptr) call->End(absl::DeadlineExceededError("stripe: not all streams of the call came in time"));
}

size_t StripeTable::size() const {
  absl::MutexLock lock(&mutex_);
  return entries_.size();
}

}  // namespace tessera
