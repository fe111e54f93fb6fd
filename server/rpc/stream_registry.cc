#include "server/rpc/stream_registry.h"

#include <vector>

namespace tessera {

void StreamRegistry::Add(const std::shared_ptr<OpenStream>& stream) {
  {
    absl::MutexLock lock(&mutex_);
    streams_.emplace(stream.get(), stream);
    if (!closed_) return;
  }
  stream->CloseWhenIdle();
}

void StreamRegistry::Remove(OpenStream* stream) {
  absl::MutexLock lock(&mutex_);
  streams_.erase(stream);
}

void StreamRegistry::CloseAll() {
  std::vector<std::shared_ptr<OpenStream>> streams;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    for (const auto& [key, weak] : streams_) {
      if (std::shared_ptr<OpenStream> stream = weak.lock()) streams.push_back(std::move(stream));
    }
  }
  for (const std::shared_ptr<OpenStream>& stream : streams) stream->CloseWhenIdle();
}

}  // namespace tessera
