#include "client/cpp/load/answer_buffers.h"

#include <utility>

namespace tessera::load {

AnswerBuffers::AnswerBuffers(absl::Span<const CallShape> shapes)
    : shapes_(shapes.begin(), shapes.end()), free_(shapes.size()) {}

std::shared_ptr<AnswerBuffer> AnswerBuffers::Take(size_t shape) {
  {
    absl::MutexLock lock(&mutex_);
    std::vector<std::shared_ptr<AnswerBuffer>>& free = free_[shape];
    if (!free.empty()) {
      std::shared_ptr<AnswerBuffer> buffer = std::move(free.back());
      free.pop_back();
      return buffer;
    }
  }
  auto buffer = std::make_shared<AnswerBuffer>();
  buffer->o.resize(static_cast<size_t>(shapes_[shape].o_bytes()));
  buffer->lse.resize(static_cast<size_t>(shapes_[shape].lse_bytes()));
  return buffer;
}

void AnswerBuffers::GiveBack(size_t shape, std::shared_ptr<AnswerBuffer> buffer) {
  absl::MutexLock lock(&mutex_);
  free_[shape].push_back(std::move(buffer));
}

}  // namespace tessera::load
