// For tests: an observer that remembers what it was told.
#ifndef TESSERA_SERVER_RPC_RECORDING_OBSERVER_H_
#define TESSERA_SERVER_RPC_RECORDING_OBSERVER_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/rpc_observer.h"

namespace tessera {

// Thread-safe.
class RecordingObserver final : public RpcObserver {
 public:
  void OnRpcStarted(RpcMethod) override {}
  void OnRpcHandled(RpcMethod, absl::StatusCode, absl::Duration) override {}
  void OnStage(Stage, absl::Duration) override {}
  void OnPayloadCopied(int64_t bytes) override {
    absl::MutexLock lock(&mutex_);
    copied_ += bytes;
  }
  void OnRegionPayload(RegionMemory, int64_t, int64_t) override {}
  void OnRejected(RejectReason reason) override {
    absl::MutexLock lock(&mutex_);
    rejected_.push_back(reason);
  }
  void OnExpired(Station where) override {
    absl::MutexLock lock(&mutex_);
    expired_.push_back(where);
  }
  void OnCancelled(Station where) override {
    absl::MutexLock lock(&mutex_);
    cancelled_.push_back(where);
  }

  int64_t copied() const {
    absl::MutexLock lock(&mutex_);
    return copied_;
  }
  std::vector<RejectReason> rejected() const {
    absl::MutexLock lock(&mutex_);
    return rejected_;
  }
  std::vector<Station> expired() const {
    absl::MutexLock lock(&mutex_);
    return expired_;
  }
  std::vector<Station> cancelled() const {
    absl::MutexLock lock(&mutex_);
    return cancelled_;
  }

 private:
  mutable absl::Mutex mutex_;
  int64_t copied_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<RejectReason> rejected_ ABSL_GUARDED_BY(mutex_);
  std::vector<Station> expired_ ABSL_GUARDED_BY(mutex_);
  std::vector<Station> cancelled_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_RECORDING_OBSERVER_H_
