// Steps on pages for tests of devices: the same call, with the same random rows, on any device's pages.
#ifndef TESSERA_SERVER_DEVICE_CUDA_TESTING_PAGED_STEPS_H_
#define TESSERA_SERVER_DEVICE_CUDA_TESTING_PAGED_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/paged_attention.h"
#include "server/device/device.h"
#include "server/memory/memory_work.h"
#include "server/memory/staging_pool.h"

namespace tessera {

// float32, 4 / 2 heads of 8; a page is K and V of 4 tokens.
struct TestPages {
  static constexpr int64_t kTokens = 4;
  static constexpr int64_t kRow = 2 * 8;             // elements of a token's K, or V
  static constexpr int64_t kPlane = kTokens * kRow;  // of a page's K, or V
  static constexpr size_t kPageBytes = 2 * kPlane * sizeof(float);

  static PagedParams Params();
};

struct TestEntry {
  std::vector<int32_t> pages;
  int64_t kv_len = 0;  // after the step
  int64_t append_len = 0;
  int64_t q_len = 0;
};

struct TestPageCopy {
  int32_t from = 0;
  int32_t to = 0;
};

struct TestCall {
  std::vector<TestEntry> entries;
  std::vector<int32_t> fills = {};
  std::vector<int32_t> host_fills = {};
  std::vector<TestPageCopy> copies = {};
  std::vector<TestPageCopy> to_host = {};
  std::vector<TestPageCopy> from_host = {};
  uint32_t seed = 0;
};

// A call in staging memory; outputs are poison, LSE among them.
class PagedStep {
 public:
  // On the pages that begin at `pages`, and those of the host that begin at `host_pages`. REQUIRES: the pool has room.
  PagedStep(TestCall call, std::byte* pages, StagingPool& staging, std::byte* host_pages = nullptr);

  ExtendItem Item() const;
  std::vector<float> Output() const;

 private:
  const TestCall call_;  // its tables are the views'
  StagingBuffer input_;
  StagingBuffer output_;
  std::vector<MemoryFill> fills_;
  PageCopies copies_;
  std::vector<PagedSequence> views_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_CUDA_TESTING_PAGED_STEPS_H_
