// Standard attention of one query head, on the best SIMD target of this machine.
#ifndef TESSERA_KERNELS_STANDARD_STANDARD_HEAD_H_
#define TESSERA_KERNELS_STANDARD_STANDARD_HEAD_H_

#include <cstddef>
#include <cstdint>

#include "hwy/aligned_allocator.h"
#include "kernels/attention.h"

namespace tessera {

// Memory that grows to the largest head and is then reused, so that the baseline does not pay for fresh pages each
// time.
class StandardWorkspace {
 public:
  // Space for `bytes` bytes, aligned for vectors, contents unspecified; null where it cannot be had.
  std::byte* Reserve(size_t bytes) {
    if (bytes > size_) {
      size_ = 0;
      memory_.reset();
      memory_ = hwy::AllocateAligned<std::byte>(bytes);
      if (memory_ != nullptr) size_ = bytes;
    }
    return memory_.get();
  }

 private:
  size_t size_ = 0;
  hwy::AlignedFreeUniquePtr<std::byte[]> memory_;
};

// False where memory for the scores cannot be had; nothing is written then.
// REQUIRES: arguments that ValidateParams and ValidateSequence accept.
bool StandardHead(const AttentionParams& params, const SequenceView& sequence, int64_t head,
                  StandardWorkspace& workspace);

}  // namespace tessera

#endif  // TESSERA_KERNELS_STANDARD_STANDARD_HEAD_H_
