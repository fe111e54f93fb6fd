#include "tests/server/sequence_soak/worker.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/server/attend_messages.h"
#include "tests/server/sequence_client.h"

namespace tessera::testing {
namespace {

constexpr size_t kMostOwned = 8;
constexpr uint32_t kQHeads = 2;
constexpr int kMostNumber = 500;
// Of the server's sums, for numbers of this size. Another number is at least 1 away, so a foreign row shows wherever
// its weight in the softmax is above this, as that of nearly every key is: the mean over 64 keys is 1 / 64.
constexpr float kTolerance = 0.005f;
// The server's clock and ours are one, but read at different times.
constexpr absl::Duration kClockSlack = absl::Milliseconds(20);

bool HasPushback(const grpc::ClientContext& context) {
  return context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms") == 1;
}

}  // namespace

CacheProfile SoakProfile(absl::Duration lease) {
  return {.name = "soak",
          .layers = 2,
          .kv_heads = 1,
          .head_dim = 8,
          .dtype = DType::kFloat32,
          .page_tokens = 4,
          .pages = 64,
          .max_tokens = 64,
          .max_sequences = 96,
          .tenant_share = 0.75,
          .lease = lease};
}

SoakWorker::SoakWorker(const std::shared_ptr<grpc::Channel>& channel, const CacheProfile& profile, int number,
                       int workers, uint64_t seed, SoakLedger* ledger)
    : profile_(profile),
      number_(number),
      workers_(workers),
      tenant_(absl::StrCat("tenant-", number % kTenants)),
      ledger_(ledger),
      stub_(v1::SequenceService::NewStub(channel)),
      rng_(seed) {}

void SoakWorker::Prepare(grpc::ClientContext& context) const { context.AddMetadata("tessera-tenant", tenant_); }

bool SoakWorker::Fail(const char* operation, const grpc::Status& status) const {
  std::cerr << "worker " << number_ << ": " << operation << ": code " << status.error_code() << " "
            << status.error_message() << "\n";
  return false;
}

bool SoakWorker::Lost(const char* operation, size_t at) {
  const absl::Duration unused = absl::Now() - owned_[at].used;
  if (unused < profile_.lease - kClockSlack) {
    return Fail(operation,
                {grpc::StatusCode::NOT_FOUND, absl::StrCat("unused for only ", absl::FormatDuration(unused))});
  }
  Forget(at);
  return Count(SoakOutcome::kExpired);
}

bool SoakWorker::Leave(size_t at) {
  left_.push_back({std::move(owned_[at].handle), absl::Now()});
  Forget(at);
  return true;
}

bool SoakWorker::CheckLeft() {
  grpc::ClientContext context;
  Prepare(context);
  v1::GetSequenceRequest request;
  request.set_sequence(left_.front().handle);
  left_.pop_front();
  v1::GetSequenceResponse response;
  const grpc::Status status = stub_->GetSequence(&context, request, &response);
  if (status.error_code() != grpc::StatusCode::NOT_FOUND) return Fail("get after the lease", status);
  return Count(SoakOutcome::kExpired);
}

bool SoakWorker::Step() {
  if (!left_.empty() && absl::Now() - left_.front().since > profile_.lease + kClockSlack) return CheckLeft();
  const uint64_t choice = rng_() % 64;
  if (owned_.empty() || (choice < 6 && owned_.size() < kMostOwned)) return Create();
  const size_t at = rng_() % owned_.size();
  if (choice < 9) return Release(at);
  if (choice < 11) return Leave(at);
  if (choice < 17) return Fork(at);
  if (choice < 23) return Truncate(at);
  if (choice < 25) return Inspect(at);
  if (choice < 28) return TryForeign();
  return Extend(/*cancel=*/choice < 32);
}

bool SoakWorker::Create() {
  grpc::ClientContext context;
  Prepare(context);
  v1::CreateSequencesRequest request;
  request.set_profile(profile_.name);
  v1::CreateSequencesResponse response;
  const absl::Time begun = absl::Now();
  const grpc::Status status = stub_->CreateSequences(&context, request, &response);
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED && HasPushback(context)) {
    return Count(SoakOutcome::kRefused);
  }
  if (!status.ok() || response.sequences_size() != 1) return Fail("create", status);
  const float magnitude = static_cast<float>(1 + rng_() % kMostNumber);
  owned_.push_back({.handle = response.sequences(0),
                    .number = number_ % kTenants == 0 ? magnitude : -magnitude,
                    .lengths = std::vector<uint64_t>(static_cast<size_t>(profile_.layers)),
                    .used = begun});
  ledger_->Publish(number_, owned_.back().handle);
  return Count(SoakOutcome::kCreated);
}

bool SoakWorker::Fork(size_t at) {
  if (owned_.size() >= kMostOwned) return Release(at);
  const uint64_t longest = *std::max_element(owned_[at].lengths.begin(), owned_[at].lengths.end());
  const uint64_t length = rng_() % (longest + 1);
  grpc::ClientContext context;
  Prepare(context);
  v1::ForkSequenceRequest request;
  request.set_sequence(owned_[at].handle);
  request.set_length(length);
  v1::ForkSequenceResponse response;
  const absl::Time begun = absl::Now();
  const grpc::Status status = stub_->ForkSequence(&context, request, &response);
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) return Lost("fork", at);
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED && HasPushback(context)) {
    return Count(SoakOutcome::kRefused);
  }
  if (!status.ok()) return Fail("fork", status);
  owned_[at].used = begun;
  Owned fork = owned_[at];
  fork.handle = response.sequence();
  for (uint64_t& layer : fork.lengths) layer = std::min(layer, length);
  owned_.push_back(std::move(fork));
  return Count(SoakOutcome::kForked);
}

bool SoakWorker::Truncate(size_t at) {
  Owned& owned = owned_[at];
  const uint64_t longest = *std::max_element(owned.lengths.begin(), owned.lengths.end());
  grpc::ClientContext context;
  Prepare(context);
  v1::TruncateSequenceRequest request;
  request.set_sequence(owned.handle);
  request.set_length(longest - rng_() % (longest / 2 + 1));
  v1::TruncateSequenceResponse response;
  const absl::Time begun = absl::Now();
  const grpc::Status status = stub_->TruncateSequence(&context, request, &response);
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) return Lost("truncate", at);
  if (!status.ok()) return Fail("truncate", status);
  owned.used = begun;
  for (uint64_t& layer : owned.lengths) layer = std::min<uint64_t>(layer, request.length());
  return Count(SoakOutcome::kTruncated);
}

bool SoakWorker::Release(size_t at) {
  grpc::ClientContext context;
  Prepare(context);
  v1::ReleaseSequencesRequest request;
  request.add_sequences(owned_[at].handle);
  v1::ReleaseSequencesResponse response;
  const grpc::Status status = stub_->ReleaseSequences(&context, request, &response);
  if (!status.ok()) return Fail("release", status);
  if (response.released() == 0) return Lost("release", at);
  Forget(at);
  return Count(SoakOutcome::kReleased);
}

bool SoakWorker::Inspect(size_t at) {
  grpc::ClientContext context;
  Prepare(context);
  v1::GetSequenceRequest request;
  request.set_sequence(owned_[at].handle);
  v1::GetSequenceResponse response;
  const absl::Time begun = absl::Now();
  const grpc::Status status = stub_->GetSequence(&context, request, &response);
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) return Lost("get", at);
  if (!status.ok()) return Fail("get", status);
  owned_[at].used = begun;
  if (!std::equal(response.lengths().begin(), response.lengths().end(), owned_[at].lengths.begin(),
                  owned_[at].lengths.end())) {
    return Fail("get", {grpc::StatusCode::INTERNAL, "the lengths are others"});
  }
  return Count(SoakOutcome::kInspected);
}

std::vector<SoakWorker::Entry> SoakWorker::ChooseEntries() {
  std::vector<Entry> entries;
  const size_t first = rng_() % owned_.size();
  const size_t many = rng_() % 4 == 0 ? std::min<size_t>(owned_.size(), 3) : 1;
  for (size_t i = 0; i < many; ++i) {
    const size_t at = (first + i) % owned_.size();
    const auto layer = static_cast<uint32_t>(rng_() % owned_[at].lengths.size());
    const auto tokens = static_cast<uint32_t>(rng_() % 4 == 0 ? 1 + rng_() % 12 : 1);
    const bool full = owned_[at].lengths[layer] + tokens > static_cast<uint64_t>(profile_.max_tokens);
    entries.push_back({at, layer, tokens, full || rng_() % 8 == 0 ? 0 : tokens});
  }
  return entries;
}

v1::ExtendRequest SoakWorker::Request(const std::vector<Entry>& entries) {
  v1::ExtendRequest request;
  request.mutable_header()->set_q_heads(kQHeads);
  const auto row = static_cast<size_t>(profile_.head_dim);
  size_t q_tokens = 0, append_tokens = 0;
  std::vector<float> v;
  for (const Entry& chosen : entries) {
    v1::ExtendEntry& entry = *request.mutable_header()->add_entries();
    entry.set_sequence(owned_[chosen.owned].handle);
    entry.set_layer(chosen.layer);
    entry.set_q_tokens(chosen.q_tokens);
    entry.set_append_tokens(chosen.append_tokens);
    q_tokens += chosen.q_tokens;
    append_tokens += chosen.append_tokens;
    v.insert(v.end(), chosen.append_tokens * row, owned_[chosen.owned].number);
  }
  request.set_q(RandomTensor(q_tokens * kQHeads * row * sizeof(float), rng_));
  request.set_k(RandomTensor(append_tokens * row * sizeof(float), rng_));
  request.set_v(std::string(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float)));
  return request;
}

bool SoakWorker::CheckAnswer(const std::vector<Entry>& entries, const v1::ExtendResponse& response) {
  const auto wrong = [this](const std::string& why) { return Fail("extend", {grpc::StatusCode::INTERNAL, why}); };
  const std::vector<float> o = Floats(response.o());
  size_t at = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    const Owned& owned = owned_[entry.owned];
    const uint64_t keys = owned.lengths[entry.layer];
    if (response.result().lengths_size() != static_cast<int>(entries.size()) ||
        response.result().lengths(static_cast<int>(i)) != keys) {
      return wrong("the lengths are others");
    }
    for (uint32_t row = 0; row < entry.q_tokens; ++row) {
      const float expected = keys + row + 1 > entry.q_tokens ? owned.number : 0.0f;
      for (size_t j = 0; j < kQHeads * static_cast<size_t>(profile_.head_dim); ++j, ++at) {
        if (at >= o.size() || !(std::abs(o[at] - expected) < kTolerance)) {
          return wrong(absl::StrCat("row ", row, " of ", entry.q_tokens, " over ", keys, " keys is ",
                                    at < o.size() ? o[at] : 0.0f, ", must be ", expected));
        }
      }
    }
  }
  return at == o.size() || wrong("o is longer than q");
}

bool SoakWorker::Extend(bool cancel) {
  const std::vector<Entry> entries = ChooseEntries();
  const absl::Time begun = absl::Now();
  ExtendCall call(*stub_, Request(entries), tenant_);
  if (cancel) {
    // Anywhere between its sending and its answer.
    absl::SleepFor(absl::Microseconds(rng_() % 2000));
    call.Cancel();
  }
  const grpc::Status& status = call.Await();
  switch (status.error_code()) {
    case grpc::StatusCode::OK: {
      bool appended = false;
      for (const Entry& entry : entries) {
        owned_[entry.owned].lengths[entry.layer] += entry.append_tokens;
        owned_[entry.owned].used = begun;
        appended |= entry.append_tokens > 0;
      }
      return CheckAnswer(entries, call.response()) && Count(appended ? SoakOutcome::kExtended : SoakOutcome::kRead);
    }
    case grpc::StatusCode::CANCELLED: {
      // Whether it has been done is not known.
      if (!cancel) return Fail("extend", status);
      std::vector<size_t> used;
      for (const Entry& entry : entries) used.push_back(entry.owned);
      std::sort(used.rbegin(), used.rend());
      for (const size_t at : used) {
        if (!Release(at)) return false;
      }
      return Count(SoakOutcome::kCancelled);
    }
    case grpc::StatusCode::NOT_FOUND: {
      const size_t before = owned_.size();
      std::vector<size_t> used;
      for (const Entry& entry : entries) used.push_back(entry.owned);
      std::sort(used.rbegin(), used.rend());
      for (const size_t at : used) {
        if (!Inspect(at)) return false;
      }
      return owned_.size() < before || Fail("extend", status);
    }
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return call.RetryPushback().empty() ? Fail("extend", status) : Count(SoakOutcome::kRefused);
    default:
      return Fail("extend", status);
  }
}

bool SoakWorker::TryForeign() {
  int other = static_cast<int>(rng_() % static_cast<uint64_t>(workers_));
  if (other % kTenants == number_ % kTenants) other = (other + 1) % workers_;
  const std::optional<std::string> handle = ledger_->Published(other);
  if (!handle.has_value() || other % kTenants == number_ % kTenants) return true;
  grpc::ClientContext context;
  Prepare(context);
  grpc::Status status;
  switch (rng_() % 4) {
    case 0: {
      v1::GetSequenceRequest request;
      request.set_sequence(*handle);
      v1::GetSequenceResponse response;
      status = stub_->GetSequence(&context, request, &response);
      break;
    }
    case 1: {
      v1::ForkSequenceRequest request;
      request.set_sequence(*handle);
      v1::ForkSequenceResponse response;
      status = stub_->ForkSequence(&context, request, &response);
      break;
    }
    case 2: {
      // A release that finds nothing is no error; the owner notices where it has found something.
      v1::ReleaseSequencesRequest request;
      request.add_sequences(*handle);
      v1::ReleaseSequencesResponse response;
      status = stub_->ReleaseSequences(&context, request, &response);
      if (status.ok() && response.released() == 0) return Count(SoakOutcome::kForeignDenied);
      break;
    }
    default: {
      v1::ExtendRequest request;
      request.mutable_header()->set_q_heads(kQHeads);
      request.mutable_header()->add_entries()->set_sequence(*handle);
      request.mutable_header()->mutable_entries(0)->set_q_tokens(1);
      request.set_q(RandomTensor(kQHeads * static_cast<size_t>(profile_.head_dim) * sizeof(float), rng_));
      v1::ExtendResponse response;
      status = stub_->Extend(&context, request, &response);
    }
  }
  if (status.error_code() != grpc::StatusCode::NOT_FOUND) return Fail("another tenant's sequence", status);
  return Count(SoakOutcome::kForeignDenied);
}

}  // namespace tessera::testing
