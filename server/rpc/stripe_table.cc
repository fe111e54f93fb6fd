#include "server/rpc/stripe_table.h"

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

absl::Status CheckStripe(const v1::Stripe& stripe) {
  if (stripe.transfer().size() != kTransferBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("stripe.transfer: ", stripe.transfer().size(), " bytes, must be ", kTransferBytes));
  }
  if (stripe.count() < kMinStripes || stripe.count() > kMaxStripes) {
    return absl::InvalidArgumentError(
        absl::StrCat("stripe.count: ", stripe.count(), " is not in ", kMinStripes, " to ", kMaxStripes));
  }
  if (stripe.index() >= stripe.count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("stripe.index: ", stripe.index(), " is not below stripe.count, ", stripe.count()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<StreamCall>> StripeTable::FindOrCreate(const std::string& tenant,
                                                                      const v1::Stripe& stripe,
                                                                      const v1::AttendHeader& header,
                                                                      const CreateFn& create) {
  if (absl::Status status = CheckStripe(stripe); !status.ok()) {
    environment_.observer->OnRejected(RejectReason::kInvalid);
    return status;
  }
  const Key key(tenant, stripe.transfer());
  std::string serialized = header.SerializeAsString();
  std::shared_ptr<StreamCall> differing;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) {
      if (static_cast<int64_t>(entries_.size()) >= environment_.limits.max_striped_calls) {
        environment_.observer->OnRejected(RejectReason::kStripes);
        return absl::ResourceExhaustedError(
            absl::StrCat("stripe: ", entries_.size(), " striped calls wait for their streams already"));
      }
      const uint64_t generation = next_generation_++;
      const DeadlineWatch::Token token =
          environment_.deadlines->Add(environment_.clock->Now() + environment_.limits.stripe_timeout,
                                      [this, key, generation] { Expire(key, generation); });
      Entry entry{create(), std::move(serialized), stripe.count(), generation, token};
      absl::StatusOr<std::shared_ptr<StreamCall>> call = entry.call;
      entries_.emplace(key, std::move(entry));
      return call;
    }
    const Entry& entry = found->second;
    if (!entry.call.ok() || (entry.count == stripe.count() && entry.header == serialized)) return entry.call;
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
    entries_.erase(found);
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
    entries_.erase(found);
  }
  if (call != nullptr) call->End(absl::DeadlineExceededError("stripe: not all streams of the call came in time"));
}

size_t StripeTable::size() const {
  absl::MutexLock lock(&mutex_);
  return entries_.size();
}

}  // namespace tessera
