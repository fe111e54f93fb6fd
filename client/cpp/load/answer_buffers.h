// Memory for answers, used again and again: as many buffers as calls were ever in flight at a time.
#ifndef TESSERA_CLIENT_CPP_LOAD_ANSWER_BUFFERS_H_
#define TESSERA_CLIENT_CPP_LOAD_ANSWER_BUFFERS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "client/cpp/load/call_shape.h"

namespace tessera::load {

struct AnswerBuffer {
  std::vector<std::byte> o;
  std::vector<std::byte> lse;
};

// Thread-safe.
class AnswerBuffers {
 public:
  explicit AnswerBuffers(absl::Span<const CallShape> shapes);

  // A buffer of the shape's sizes. Its content is that of an earlier answer. Shared pointers, so that a std::function
  // can carry one; a buffer has one user at a time.
  std::shared_ptr<AnswerBuffer> Take(size_t shape);
  void GiveBack(size_t shape, std::shared_ptr<AnswerBuffer> buffer);

 private:
  const std::vector<CallShape> shapes_;
  absl::Mutex mutex_;
  std::vector<std::vector<std::shared_ptr<AnswerBuffer>>> free_ ABSL_GUARDED_BY(mutex_);  // per shape
};

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_ANSWER_BUFFERS_H_
