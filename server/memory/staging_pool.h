// Host memory that payloads are received into and answered from: one region taken at start, never grown.
//
// On the CPU it is plain memory; a GPU device hands in pinned memory. Buffers are suballocated with exact accounting.
// Under AddressSanitizer, bytes outside the buffers handed out are poisoned.
#ifndef TESSERA_SERVER_MEMORY_STAGING_POOL_H_
#define TESSERA_SERVER_MEMORY_STAGING_POOL_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/memory/arena.h"

namespace tessera {

class StagingPool;

// A piece of the pool, given back by the destructor on any thread. Movable, not copyable. Start and size are aligned to
// StagingPool::kAlignment; data() of an empty buffer is null.
class StagingBuffer {
 public:
  StagingBuffer() = default;
  StagingBuffer(StagingBuffer&& other) noexcept;
  StagingBuffer& operator=(StagingBuffer&& other) noexcept;
  ~StagingBuffer();

  std::byte* data() const { return data_; }
  // As asked for.
  size_t size() const { return size_; }
  void Release();

 private:
  friend class StagingPool;
  StagingBuffer(StagingPool* pool, std::byte* data, size_t size) : pool_(pool), data_(data), size_(size) {}

  StagingPool* pool_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Thread-safe, never blocks on anything but its own short lock. Outlives its buffers.
class StagingPool {
 public:
  static constexpr size_t kAlignment = 256;

  // Takes and gives back the region. The default maps anonymous memory.
  class Region {
   public:
    virtual ~Region() = default;
    virtual std::byte* data() const = 0;
    virtual size_t size() const = 0;
  };
  // Pages are zero, and take physical memory only once touched. RESOURCE_EXHAUSTED where the system has not so much
  // address space; INVALID_ARGUMENT for 0 bytes.
  static absl::StatusOr<std::unique_ptr<Region>> MapAnonymous(size_t bytes);

  explicit StagingPool(std::unique_ptr<Region> region);
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;
  // REQUIRES: every buffer has been given back.
  ~StagingPool();

  // Asked for leave before each allocation of so many bytes; an error is returned in its place. A fault device makes
  // allocations fail by it. REQUIRES: called before the first Allocate.
  using Gate = std::function<absl::Status(size_t bytes)>;
  void set_gate(Gate gate) { gate_ = std::move(gate); }

  // RESOURCE_EXHAUSTED where no free piece is large enough now; INVALID_ARGUMENT where the pool never could be.
  // 0 bytes give an empty buffer.
  absl::StatusOr<StagingBuffer> Allocate(size_t bytes);

  size_t capacity() const { return region_->size(); }
  // Bytes handed out, rounding included.
  size_t in_use() const;

 private:
  friend class StagingBuffer;
  void Free(std::byte* data, size_t size);

  const std::unique_ptr<Region> region_;
  Gate gate_;
  mutable absl::Mutex mutex_;
  Arena arena_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_MEMORY_STAGING_POOL_H_
