#include "client/cpp/load/decode/decode_round.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/load/arrival.h"
#include "client/cpp/load/load_clock.h"
#include "client/cpp/tessera/retry_after.h"

namespace tessera::load {
namespace {

// How often a wait looks whether the run was stopped.
constexpr absl::Duration kLook = absl::Milliseconds(50);
// Before a closed loop tries again what the server has refused without naming a time.
constexpr absl::Duration kPause = absl::Milliseconds(10);

bool CausedByLoad(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status);
}

}  // namespace

DecodeRound::DecodeRound(const LoadConfig& config, const DecodeShape& shape, std::string name, DecodeTarget* target,
                         const std::atomic<bool>* interrupted)
    : config_(config),
      shape_(shape),
      name_(std::move(name)),
      target_(target),
      interrupted_(interrupted),
      start_(LoadClock::Real()->Now()),
      from_(start_ + config.length.warm_up),
      until_(from_ + config.length.measured),
      random_(config.seed),
      shown_(start_),
      recorder_(from_, until_),
      context_{&shape_,  LoadClock::Real(),     &recorder_,
               &timers_, config.server.timeout, [this] { return gave_up_ || *interrupted_ || Over(); }} {}

bool DecodeRound::Over() const { return LoadClock::Real()->Now() >= until_; }

int64_t DecodeRound::active() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int64_t>(active_.size());
}

absl::Status DecodeRound::Run(DecodeStats* stats) {
  config_.mode == LoadMode::kClosed ? RunClosed() : RunOpen();
  while (active() > 0) Wait(absl::InfiniteDuration());
  Wait(absl::ZeroDuration());
  *stats = recorder_.Take(LoadClock::Real()->Now());
  if (!gave_up_) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  return absl::Status(last_failure_.code(), absl::StrCat(name_, ": gave up after ", config_.give_up_after,
                                                         " failures in a row, the last: ", last_failure_.message()));
}

void DecodeRound::RunClosed() {
  while (!context_.stopped()) {
    const absl::Duration now = LoadClock::Real()->Now();
    const int64_t most = config_.length.max_requests;
    if (most > 0 && begun_measured_ >= most) return;
    if (active() < config_.callers) {
      if (now >= from_) ++begun_measured_;
      Begin(now);
      Wait(absl::ZeroDuration());
    } else {
      Wait(until_);
    }
  }
}

void DecodeRound::RunOpen() {
  const ArrivalProcess process =
      config_.mode == LoadMode::kPoisson ? ArrivalProcess::kPoisson : ArrivalProcess::kConstant;
  const int64_t most = config_.length.max_requests;
  for (const absl::Duration arrival : PlanArrivals(process, config_.rate, OfferedTime(config_), config_.seed)) {
    const absl::Duration due = start_ + arrival;
    while (LoadClock::Real()->Now() < due && !context_.stopped()) Wait(due);
    if (context_.stopped() || (most > 0 && begun_measured_ >= most)) return;
    if (due >= from_) ++begun_measured_;
    if (active() >= config_.max_in_flight) {
      recorder_.SequencesDropped(due, shape_.group);
    } else {
      Begin(due);
    }
  }
  while (!context_.stopped() && (most == 0 || active() > 0)) Wait(until_);
}

void DecodeRound::Begin(absl::Duration due) {
  const int64_t prefill = target_->keeps_rows() ? shape_.prefill.Draw(random_) : 0;
  const int64_t steps = shape_.steps.Draw(random_);
  absl::StatusOr<std::unique_ptr<SequenceGroup>> group = target_->Open(begun_++);
  if (!group.ok()) {
    recorder_.SequencesFailed(LoadClock::Real()->Now(), shape_.group, group.status());
    {
      absl::MutexLock lock(&mutex_);
      Settle(group.status());
    }
    // A closed loop would ask again at once.
    const absl::Duration pause = std::max(RetryAfter(group.status()), kPause);
    if (config_.mode == LoadMode::kClosed) LoadClock::Real()->SleepUntil(LoadClock::Real()->Now() + pause);
    return;
  }
  auto decoder =
      std::make_unique<Decoder>(&context_, *std::move(group), prefill, steps, due,
                                [this](Decoder* ended, const absl::Status& status) { OnEnd(ended, status); });
  Decoder* const started = decoder.get();
  {
    absl::MutexLock lock(&mutex_);
    active_.emplace(started, std::move(decoder));
  }
  started->Start();
}

void DecodeRound::Wait(absl::Duration until) {
  std::vector<std::unique_ptr<Decoder>> ended;
  const absl::Duration now = LoadClock::Real()->Now();
  {
    absl::MutexLock lock(&mutex_);
    const auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !ended_.empty(); };
    mutex_.AwaitWithTimeout(absl::Condition(&any), std::clamp(until - now, absl::ZeroDuration(), kLook));
    ended.swap(ended_);
  }
  ended.clear();  // gives their sequences back
  if (config_.progress) ShowProgress(LoadClock::Real()->Now());
}

void DecodeRound::OnEnd(Decoder* decoder, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  Settle(status);
  auto node = active_.extract(decoder);
  ended_.push_back(std::move(node.mapped()));
}

void DecodeRound::Settle(const absl::Status& status) {
  hopeless_ = status.ok() || CausedByLoad(status) ? 0 : hopeless_ + 1;
  if (!status.ok()) last_failure_ = status;
  if (config_.give_up_after > 0 && hopeless_ >= config_.give_up_after) gave_up_ = true;
}

void DecodeRound::ShowProgress(absl::Duration now) {
  if (now - shown_ < absl::Seconds(1)) return;
  const int64_t tokens = recorder_.tokens();
  absl::FPrintF(stderr, "%-7s %5.0f s %9.1f tokens/s  groups %5d\n", name_, absl::ToDoubleSeconds(now - start_),
                static_cast<double>(tokens - shown_tokens_) / absl::ToDoubleSeconds(now - shown_), active());
  shown_ = now;
  shown_tokens_ = tokens;
}

}  // namespace tessera::load
