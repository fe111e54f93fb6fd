#include "server/rpc/deadline_watch.h"

namespace tessera {

DeadlineWatch::DeadlineWatch(Clock* clock) : clock_(clock), thread_([this] { Run(); }) {}

void DeadlineWatch::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
  std::map<Token, std::function<void()>>
      dropped;  // destroyed after the lock, for they may own what they were to act on
  absl::MutexLock lock(&mutex_);
  dropped.swap(entries_);
}

DeadlineWatch::Token DeadlineWatch::Add(absl::Time deadline, std::function<void()> fire) {
  absl::MutexLock lock(&mutex_);
  const Token token(deadline, next_++);
  if (!stopping_) entries_.emplace(token, std::move(fire));
  return token;
}

void DeadlineWatch::Remove(const Token& token) {
  std::function<void()> dropped;  // destroyed after the lock, for it may own what it was to act on
  absl::MutexLock lock(&mutex_);
  const auto entry = entries_.find(token);
  if (entry == entries_.end()) return;
  dropped = std::move(entry->second);
  entries_.erase(entry);
}

void DeadlineWatch::Run() {
  absl::MutexLock lock(&mutex_);
  while (!stopping_) {
    const absl::Time armed = entries_.empty() ? absl::InfiniteFuture() : entries_.begin()->first.first;
    const auto wake = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_ || (!entries_.empty() && entries_.begin()->first.first < armed);
    };
    if (clock_->AwaitWithDeadline(&mutex_, absl::Condition(&wake), armed)) continue;
    if (entries_.empty() || entries_.begin()->first.first > armed) continue;
    std::function<void()> fire = std::move(entries_.begin()->second);
    entries_.erase(entries_.begin());
    mutex_.Unlock();
    fire();
    fire = nullptr;
    mutex_.Lock();
  }
}

}  // namespace tessera
