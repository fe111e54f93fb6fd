// Doubly linked lists through the jobs themselves: no allocation, removal from the middle in O(1).
#ifndef TESSERA_SERVER_SCHEDULER_JOB_LIST_H_
#define TESSERA_SERVER_SCHEDULER_JOB_LIST_H_

#include "server/scheduler/job.h"

namespace tessera {

// The lists that a waiting job stands in at once, each in order of arrival.
inline constexpr int kWholeQueue = 0;
inline constexpr int kSideList = 1;
inline constexpr int kLaneList = 2;

// Does not own its jobs. Not thread-safe. A job is in at most one JobList<kList> for each kList.
template <int kList>
class JobList {
 public:
  JobList() = default;
  JobList(const JobList&) = delete;
  JobList& operator=(const JobList&) = delete;

  bool empty() const { return front_ == nullptr; }
  // Null where empty.
  Job* front() const { return front_; }

  void PushBack(Job* job) {
    Links(job) = {.before = back_, .after = nullptr};
    (back_ == nullptr ? front_ : Links(back_).after) = job;
    back_ = job;
  }

  // REQUIRES: the job is in this list.
  void Remove(Job* job) {
    const Job::Neighbours links = Links(job);
    (links.before == nullptr ? front_ : Links(links.before).after) = links.after;
    (links.after == nullptr ? back_ : Links(links.after).before) = links.before;
    Links(job) = {};
  }

 private:
  static Job::Neighbours& Links(Job* job) { return job->place_.lists[kList]; }

  Job* front_ = nullptr;
  Job* back_ = nullptr;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_SCHEDULER_JOB_LIST_H_
