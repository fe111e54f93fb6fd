#include "server/region/tenant_tasks.h"

#include <utility>

#include "absl/base/internal/raw_logging.h"

namespace tessera {

TenantTasks::TenantTasks(int threads) {
  ABSL_RAW_CHECK(threads >= 1, "tasks want a thread");
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

TenantTasks::~TenantTasks() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) {
    ABSL_RAW_CHECK(std::this_thread::get_id() != thread.get_id(), "tasks are not destroyed by one of their threads");
    thread.join();
  }
}

void TenantTasks::Post(const std::string& tenant, Task task) {
  absl::MutexLock lock(&mutex_);
  const auto [place, idle] = waiting_.try_emplace(tenant);
  place->second.push_back(std::move(task));
  if (idle) turns_.push_back(tenant);
}

void TenantTasks::Run() {
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !turns_.empty() || (stopping_ && waiting_.empty());
  };
  while (true) {
    std::string tenant;
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&ready));
      if (turns_.empty()) return;
      tenant = std::move(turns_.front());
      turns_.pop_front();
      std::deque<Task>& tasks = waiting_.find(tenant)->second;
      task = std::move(tasks.front());
      tasks.pop_front();
    }
    task();
    task = nullptr;  // what it holds may post, too
    absl::MutexLock lock(&mutex_);
    const auto place = waiting_.find(tenant);
    if (place->second.empty()) {
      waiting_.erase(place);
    } else {
      turns_.push_back(std::move(tenant));
    }
  }
}

}  // namespace tessera
