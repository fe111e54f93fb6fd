#include "server/device/fault_device.h"

#include <algorithm>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"

namespace tessera {

FaultDevice::FaultDevice(std::unique_ptr<Device> device, FaultScript script, Clock* clock)
    : device_(std::move(device)), script_(std::move(script)), clock_(clock) {
  const bool stages = std::any_of(script_.rules.begin(), script_.rules.end(),
                                  [](const FaultRule& rule) { return rule.point == FaultRule::Point::kStage; });
  if (stages) device_->staging().set_gate([this](size_t) { return OnAllocation(); });
}

FaultDevice::~FaultDevice() {
  ReleaseAll();
  absl::MutexLock lock(&mutex_);
  auto empty = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return inside_ == 0; };
  mutex_.Await(absl::Condition(&empty));
}

BatchOutcome FaultDevice::Run(int slot, const AttentionParams& params, absl::Span<const BatchItem> items,
                              const std::stop_token& stop) {
  return RunBatch([&] { return device_->Run(slot, params, items, stop); });
}

BatchOutcome FaultDevice::Extend(int slot, const PagedParams& params, absl::Span<const ExtendItem> items,
                                 const std::stop_token& stop) {
  return RunBatch([&] { return device_->Extend(slot, params, items, stop); });
}

BatchOutcome FaultDevice::RunBatch(absl::FunctionRef<BatchOutcome()> run) {
  int64_t batch;
  {
    absl::MutexLock lock(&mutex_);
    batch = ++batches_;
    ++inside_;
  }
  std::optional<BatchOutcome> outcome = Strike(FaultRule::Point::kCopyIn, batch);
  if (!outcome.has_value()) outcome = Strike(FaultRule::Point::kRun, batch);
  if (!outcome.has_value()) {
    outcome = run();
    if (outcome->status.ok()) {
      if (std::optional<BatchOutcome> fault = Strike(FaultRule::Point::kCopyOut, batch)) outcome = std::move(fault);
    }
  }
  absl::MutexLock lock(&mutex_);
  --inside_;
  return *std::move(outcome);
}

void FaultDevice::AwaitBatch(int64_t batch) {
  absl::MutexLock lock(&mutex_);
  auto come = [this, batch]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return batches_ >= batch; };
  ABSL_RAW_CHECK(mutex_.AwaitWithTimeout(absl::Condition(&come), kLongestWait), "the awaited batch has not come");
}

void FaultDevice::Release(int64_t batch) {
  absl::MutexLock lock(&mutex_);
  released_.insert(batch);
}

void FaultDevice::ReleaseAll() {
  absl::MutexLock lock(&mutex_);
  all_released_ = true;
}

const FaultRule* FaultDevice::Find(FaultRule::Point point, int64_t ordinal) const {
  for (const FaultRule& rule : script_.rules) {
    if (rule.point == point && rule.first <= ordinal && ordinal <= rule.last) return &rule;
  }
  return nullptr;
}

absl::Status FaultDevice::OnAllocation() {
  const FaultRule* const rule = Find(FaultRule::Point::kStage, ++allocations_);
  return rule == nullptr ? absl::OkStatus() : absl::Status(rule->code, "scripted fault of the staging memory");
}

std::optional<BatchOutcome> FaultDevice::Strike(FaultRule::Point point, int64_t batch) {
  const FaultRule* const rule = Find(point, batch);
  if (rule == nullptr) return std::nullopt;
  const std::string message = absl::StrCat("scripted fault of batch ", batch);
  BatchOutcome outcome;
  switch (rule->action) {
    case FaultRule::Action::kFail:
      outcome.status = absl::Status(rule->code, message);
      return outcome;
    case FaultRule::Action::kSticky:
      outcome.status = absl::InternalError(message);
      outcome.sticky = true;
      return outcome;
    case FaultRule::Action::kHang:
      Hang(batch);
      return std::nullopt;
    case FaultRule::Action::kDelay: {
      absl::MutexLock lock(&mutex_);
      clock_->AwaitWithDeadline(&mutex_, absl::Condition(&all_released_), clock_->Now() + rule->delay);
      return std::nullopt;
    }
  }
  return std::nullopt;
}

void FaultDevice::Hang(int64_t batch) {
  absl::MutexLock lock(&mutex_);
  auto released = [this, batch]()
                      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return all_released_ || released_.contains(batch); };
  mutex_.Await(absl::Condition(&released));
}

}  // namespace tessera
