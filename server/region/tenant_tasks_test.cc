#include "server/region/tenant_tasks.h"

#include <string>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// What has run, in order.
class Record {
 public:
  TenantTasks::Task Task(const std::string& name) {
    return [this, name] {
      absl::MutexLock lock(&mutex_);
      names_.push_back(name);
    };
  }
  std::vector<std::string> names() {
    absl::MutexLock lock(&mutex_);
    return names_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::string> names_;
};

TEST(TenantTasksTest, OneTenantsWaitDoesNotHoldAnotherOnesTasks) {
  absl::Notification release, other_ran;
  TenantTasks tasks(2);
  for (int i = 0; i < 8; ++i) tasks.Post("large", [&] { release.WaitForNotification(); });
  tasks.Post("small", [&] { other_ran.Notify(); });
  other_ran.WaitForNotification();
  EXPECT_FALSE(release.HasBeenNotified());
  release.Notify();
}

TEST(TenantTasksTest, ATenantsTasksRunOneAfterTheOther) {
  Record record;
  std::vector<std::string> expected;
  {
    TenantTasks tasks(4);
    for (int i = 0; i < 200; ++i) {
      expected.push_back(std::to_string(i));
      tasks.Post("a", record.Task(expected.back()));
    }
  }
  EXPECT_EQ(record.names(), expected);
}

TEST(TenantTasksTest, TenantsTakeTurns) {
  Record record;
  {
    absl::Notification begun, release;
    TenantTasks tasks(1);
    tasks.Post("first", [&] {
      begun.Notify();
      release.WaitForNotification();
    });
    begun.WaitForNotification();
    for (const char* task : {"a1", "a2", "a3"}) tasks.Post("a", record.Task(task));
    for (const char* task : {"b1", "b2"}) tasks.Post("b", record.Task(task));
    tasks.Post("c", record.Task("c1"));
    release.Notify();
  }
  EXPECT_EQ(record.names(), (std::vector<std::string>{"a1", "b1", "c1", "a2", "b2", "a3"}));
}

TEST(TenantTasksTest, AsManyTenantsAtATimeAsThreads) {
  constexpr int kThreads = 3;
  absl::BlockingCounter inside(kThreads);
  absl::Notification release;
  TenantTasks tasks(kThreads);
  for (const char* tenant : {"a", "b", "c"}) {
    tasks.Post(tenant, [&] {
      inside.DecrementCount();
      release.WaitForNotification();
    });
  }
  inside.Wait();
  release.Notify();
}

TEST(TenantTasksTest, TheEndWaitsForTasksThatTasksPost) {
  Record record;
  {
    TenantTasks tasks(2);
    tasks.Post("a", [&] {
      tasks.Post("a", record.Task("of the same"));
      tasks.Post("b", record.Task("of another"));
    });
  }
  EXPECT_EQ(record.names().size(), 2);
}

}  // namespace
}  // namespace tessera
