// A paged batch on the device: a copy of all that a host batch consists of, and the results brought back into it.
#ifndef TESSERA_TESTS_GPU_DEVICE_PAGED_BATCH_H_
#define TESSERA_TESTS_GPU_DEVICE_PAGED_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/testing/paged_batch.h"
#include "tests/gpu/device_buffer.h"

namespace tessera::gpu_test {

class DevicePagedBatch {
 public:
  // `host` must outlive it.
  explicit DevicePagedBatch(PagedBatch& host);

  // The host's views, on the device.
  const std::vector<PagedSequence>& views() const { return views_; }
  // The same attention over contiguous k and v.
  const std::vector<SequenceView>& contiguous_views() const { return contiguous_views_; }

  // Poisons the outputs and takes the new rows out of the pages, on both sides.
  void Reset();
  // Brings o, lse and the pages into the host batch, once all work enqueued so far has finished.
  void Read();

 private:
  struct Copy {
    absl::Span<std::byte> host;
    std::unique_ptr<DeviceBuffer> device;
  };

  void AddTensors(TestSequence& sequence);
  void Upload(const Copy& copy) const;
  template <typename T>
  T* OnDevice(T* host) const;

  PagedBatch& host_;
  std::vector<Copy> inputs_, outputs_;
  std::unique_ptr<DeviceBuffer> scales_;
  std::vector<std::unique_ptr<DeviceBuffer>> tables_;
  std::vector<PagedSequence> views_;
  std::vector<SequenceView> contiguous_views_;
};

}  // namespace tessera::gpu_test

#endif  // TESSERA_TESTS_GPU_DEVICE_PAGED_BATCH_H_
