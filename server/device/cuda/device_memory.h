// A GPU's memory for tensors: one arena taken at start, never grown, with exact accounting.
#ifndef TESSERA_SERVER_DEVICE_CUDA_DEVICE_MEMORY_H_
#define TESSERA_SERVER_DEVICE_CUDA_DEVICE_MEMORY_H_

#include <cstddef>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/device/cuda/cuda_calls.h"
#include "server/memory/arena.h"

namespace tessera {

// Thread-safe, never blocks on anything but its own short lock. Outlives its blocks.
class DeviceMemory {
 public:
  // Of every block's start and size, in bytes.
  static constexpr size_t kAlignment = 256;

  // A piece of the arena, given back by the destructor on any thread. Movable, not copyable.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept;
    Block& operator=(Block&& other) noexcept;
    ~Block();

    // On the device; null of an empty block.
    std::byte* data() const { return data_; }

   private:
    friend class DeviceMemory;
    Block(DeviceMemory* memory, std::byte* data, size_t kept) : memory_(memory), data_(data), kept_(kept) {}

    DeviceMemory* memory_ = nullptr;
    std::byte* data_ = nullptr;
    size_t kept_ = 0;  // bytes that no other block can have as long as this one lives
  };

  // Takes `bytes` of CUDA device `device`. `calls` outlives the memory. RESOURCE_EXHAUSTED where the device has not so
  // much.
  static absl::StatusOr<std::unique_ptr<DeviceMemory>> Take(int device, size_t bytes, CudaCalls* calls);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  // REQUIRES: every block has been given back.
  ~DeviceMemory();

  // RESOURCE_EXHAUSTED where no free piece is large enough now; INVALID_ARGUMENT where what is not kept never could be.
  // 0 bytes give an empty block.
  absl::StatusOr<Block> Allocate(size_t bytes);
  // A block that stays: nobody waits for it to be given back. RESOURCE_EXHAUSTED where no free piece is large enough.
  absl::StatusOr<Block> Keep(size_t bytes);

  size_t capacity() const { return capacity_; }
  // Bytes handed out, rounding included.
  size_t in_use() const;

 private:
  DeviceMemory(int device, std::byte* data, size_t bytes, CudaCalls* calls);
  absl::StatusOr<Block> AllocateLocked(size_t bytes, bool keep) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Free(std::byte* data, size_t kept);

  const int device_;
  std::byte* const data_;
  CudaCalls* const calls_;
  mutable absl::Mutex mutex_;
  Arena arena_ ABSL_GUARDED_BY(mutex_);
  size_t kept_ ABSL_GUARDED_BY(mutex_) = 0;
  const size_t capacity_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_CUDA_DEVICE_MEMORY_H_
