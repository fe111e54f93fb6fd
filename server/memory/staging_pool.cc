#include "server/memory/staging_pool.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/base/config.h"
#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"

#ifdef ABSL_HAVE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, size) (static_cast<void>(data), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(data, size) (static_cast<void>(data), static_cast<void>(size))
#endif

namespace tessera {
namespace {

class MappedRegion final : public StagingPool::Region {
 public:
  MappedRegion(void* data, size_t size) : data_(static_cast<std::byte*>(data)), size_(size) {}
  ~MappedRegion() override { munmap(data_, size_); }

  std::byte* data() const override { return data_; }
  size_t size() const override { return size_; }

 private:
  std::byte* const data_;
  const size_t size_;
};

}  // namespace

StagingBuffer::StagingBuffer(StagingBuffer&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

StagingBuffer& StagingBuffer::operator=(StagingBuffer&& other) noexcept {
  if (this != &other) {
    Release();
    pool_ = std::exchange(other.pool_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

StagingBuffer::~StagingBuffer() { Release(); }

void StagingBuffer::Release() {
  if (pool_ != nullptr) pool_->Free(data_, size_);
  pool_ = nullptr;
  data_ = nullptr;
  size_ = 0;
}

absl::StatusOr<std::unique_ptr<StagingPool::Region>> StagingPool::MapAnonymous(size_t bytes) {
  if (bytes == 0) return absl::InvalidArgumentError("staging memory: 0 bytes");
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("staging memory: cannot map ", bytes, " bytes: ", std::strerror(errno)));
  }
  // Fewer page faults and TLB misses; refused, harmlessly, where the kernel has no huge pages.
  madvise(data, bytes, MADV_HUGEPAGE);
  return std::make_unique<MappedRegion>(data, bytes);
}

StagingPool::StagingPool(std::unique_ptr<Region> region)
    : region_(std::move(region)), arena_(region_->size(), kAlignment) {
  ABSL_RAW_CHECK(reinterpret_cast<uintptr_t>(region_->data()) % kAlignment == 0, "a region is aligned");
  ASAN_POISON_MEMORY_REGION(region_->data(), region_->size());
}

StagingPool::~StagingPool() {
  ABSL_RAW_CHECK(in_use() == 0, "a staging pool outlives its buffers");
  ASAN_UNPOISON_MEMORY_REGION(region_->data(), region_->size());
}

absl::StatusOr<StagingBuffer> StagingPool::Allocate(size_t bytes) {
  if (bytes == 0) return StagingBuffer();
  if (gate_) {
    if (absl::Status leave = gate_(bytes); !leave.ok()) return leave;
  }
  absl::MutexLock lock(&mutex_);
  if (bytes > arena_.capacity()) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes, " bytes are more than the server's staging memory of ", arena_.capacity()));
  }
  const std::optional<size_t> offset = arena_.Allocate(bytes);
  if (!offset.has_value()) {
    return absl::ResourceExhaustedError(absl::StrCat("staging memory: ", bytes, " bytes do not fit now, ",
                                                     arena_.in_use(), " of ", arena_.capacity(), " are in use"));
  }
  std::byte* const data = region_->data() + *offset;
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
  return StagingBuffer(this, data, bytes);
}

size_t StagingPool::in_use() const {
  absl::MutexLock lock(&mutex_);
  return arena_.in_use();
}

void StagingPool::Free(std::byte* data, size_t size) {
  ASAN_POISON_MEMORY_REGION(data, size);
  absl::MutexLock lock(&mutex_);
  arena_.Free(static_cast<size_t>(data - region_->data()));
}

}  // namespace tessera
