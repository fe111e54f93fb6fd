#include "server/rpc/stream_registry.h"

#include <utility>

namespace tessera {

void StreamRegistry::Add(const std::shared_ptr<OpenStream>& stream) {
  bool closed;
  absl::Status calls_end;
  {
    absl::MutexLock lock(&mutex_);
    streams_.emplace(stream.get(), stream);
    closed = closed_;
    calls_end = calls_end_;
  }
  if (!calls_end.ok()) stream->EndCalls(calls_end);
  if (closed) stream->CloseWhenIdle();
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
    streams = Streams();
  }
  for (const std::shared_ptr<OpenStream>& stream : streams) stream->CloseWhenIdle();
}

void StreamRegistry::EndAllCalls(const absl::Status& status) {
  std::vector<std::shared_ptr<OpenStream>> streams;
  {
    absl::MutexLock lock(&mutex_);
    calls_end_ = status;
    streams = Streams();
  }
  for (const std::shared_ptr<OpenStream>& stream : streams) stream->EndCalls(status);
}

std::vector<std::shared_ptr<OpenStream>> StreamRegistry::Streams() {
  std::vector<std::shared_ptr<OpenStream>> streams;
  for (const auto& [key, weak] : streams_) {
    if (std::shared_ptr<OpenStream> stream = weak.lock()) streams.push_back(std::move(stream));
  }
  return streams;
}

}  // namespace tessera
