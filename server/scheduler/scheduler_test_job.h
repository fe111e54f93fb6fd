// A job that records how it ended, for the scheduler's tests.
#ifndef TESSERA_SERVER_SCHEDULER_SCHEDULER_TEST_JOB_H_
#define TESSERA_SERVER_SCHEDULER_SCHEDULER_TEST_JOB_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/scheduler/job.h"

namespace tessera {

class TestJob final : public Job {
 public:
  explicit TestJob(Traits job_traits) : Job(std::move(job_traits)) {}

  // Written by OnDone; read them once the job has ended, on the same thread or after joining its thread.
  int times_done = 0;
  absl::Status status = absl::UnknownError("not done");
  State where = State::kDone;
  // Called by OnDone.
  std::function<void()> on_done;

 private:
  void OnDone(const absl::Status& final_status, State final_where) override {
    ++times_done;
    status = final_status;
    where = final_where;
    if (on_done) on_done();
  }
};

using TestJobPtr = std::shared_ptr<TestJob>;

inline BatchKey TestKey(uint64_t n) { return BatchKey{{n}}; }

inline TestJobPtr MakeTestJob(Job::Traits traits) { return std::make_shared<TestJob>(std::move(traits)); }

inline TestJobPtr MakeTestJob(std::string tenant, int64_t cost, uint64_t key = 0) {
  return MakeTestJob(Job::Traits{.key = TestKey(key), .tenant = std::move(tenant), .cost = cost});
}

}  // namespace tessera

#endif  // TESSERA_SERVER_SCHEDULER_SCHEDULER_TEST_JOB_H_
