#include "kernels/cpu/scratch.h"

#include <new>
#include <utility>

namespace tessera {

std::unique_ptr<Scratch> ScratchPool::Take() {
  {
    absl::MutexLock lock(&mutex_);
    if (!free_.empty()) {
      std::unique_ptr<Scratch> scratch = std::move(free_.back());
      free_.pop_back();
      return scratch;
    }
  }
  return std::unique_ptr<Scratch>(new (std::nothrow) Scratch());
}

void ScratchPool::Return(std::unique_ptr<Scratch> scratch) {
  absl::MutexLock lock(&mutex_);
  free_.push_back(std::move(scratch));
}

}  // namespace tessera
