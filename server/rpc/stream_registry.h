// The streams that are open, so that a server that stops can end the idle ones.
#ifndef TESSERA_SERVER_RPC_STREAM_REGISTRY_H_
#define TESSERA_SERVER_RPC_STREAM_REGISTRY_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace tessera {

class OpenStream {
 public:
  virtual ~OpenStream() = default;
  virtual void CloseWhenIdle() = 0;
};

// Thread-safe.
class StreamRegistry {
 public:
  // A stream that comes after CloseAll is told to close at once.
  void Add(const std::shared_ptr<OpenStream>& stream);
  void Remove(OpenStream* stream);
  void CloseAll();

 private:
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<OpenStream*, std::weak_ptr<OpenStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_STREAM_REGISTRY_H_
