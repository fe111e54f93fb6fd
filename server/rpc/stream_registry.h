// The streams that are open, so that a server that stops can end the idle ones, and one whose device is lost their
// calls.
#ifndef TESSERA_SERVER_RPC_STREAM_REGISTRY_H_
#define TESSERA_SERVER_RPC_STREAM_REGISTRY_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace tessera {

class OpenStream {
 public:
  virtual ~OpenStream() = default;
  virtual void CloseWhenIdle() = 0;
  // Ends every call, those still being received included, and those that come later.
  virtual void EndCalls(const absl::Status& status) = 0;
};

// Thread-safe.
class StreamRegistry {
 public:
  // A stream that comes after CloseAll or EndAllCalls is told at once.
  void Add(const std::shared_ptr<OpenStream>& stream);
  void Remove(OpenStream* stream);
  void CloseAll();
  void EndAllCalls(const absl::Status& status);

 private:
  std::vector<std::shared_ptr<OpenStream>> Streams() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status calls_end_ ABSL_GUARDED_BY(mutex_);  // not OK: EndAllCalls
  absl::flat_hash_map<OpenStream*, std::weak_ptr<OpenStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_STREAM_REGISTRY_H_
