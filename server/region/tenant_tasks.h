// Work that takes its time, done for several tenants by a few threads: no tenant alone keeps another one's waiting.
#ifndef TESSERA_SERVER_REGION_TENANT_TASKS_H_
#define TESSERA_SERVER_REGION_TENANT_TASKS_H_

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/node_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace tessera {

// A tenant's tasks run one after the other, in the order in which they came; tenants take turns. So a tenant has at
// most one thread, however much it asks for; it takes as many tenants as there are threads to keep others waiting.
// Thread-safe.
class TenantTasks {
 public:
  using Task = std::function<void()>;

  // REQUIRES: threads >= 1.
  explicit TenantTasks(int threads);
  TenantTasks(const TenantTasks&) = delete;
  TenantTasks& operator=(const TenantTasks&) = delete;
  // Runs what has been posted, also by tasks meanwhile. REQUIRES: not called by a task.
  ~TenantTasks();

  void Post(const std::string& tenant, Task task);

 private:
  void Run();

  absl::Mutex mutex_;
  // Of tenants with a task that waits or runs: those that wait.
  absl::node_hash_map<std::string, std::deque<Task>> waiting_ ABSL_GUARDED_BY(mutex_);
  // Tenants with a task that waits and none that runs, the next one first.
  std::deque<std::string> turns_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_REGION_TENANT_TASKS_H_
