// A device as the engine sees it: memory to receive into, and slots that run batches.
#ifndef TESSERA_SERVER_DEVICE_DEVICE_H_
#define TESSERA_SERVER_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/attention.h"
#include "kernels/paged_attention.h"
#include "server/memory/memory_work.h"
#include "server/memory/staging_pool.h"
#include "server/region/region_mapper.h"

namespace tessera {

struct DeviceInfo {
  int index = 0;             // among the server's devices, from 0
  std::string backend;       // "cpu", "cuda"
  std::string name;          // "AMD EPYC", "NVIDIA H200"
  std::string kernel;        // AttentionBackend::name()
  int64_t memory_bytes = 0;  // arena; 0 where tensors stay in staging memory
  int slots = 1;
};

// Host memory of one tensor in a region of shared memory.
struct HostTensor {
  std::byte* data;
  size_t bytes;
  bool output;  // written by the call; otherwise read
};

// One call of a batch: its bytes, and views into them. They are in staging memory, `input` and `output` each a buffer
// of its own, or in shared memory, where every tensor has its place. Tensors that are in neither lie on the device
// already.
struct BatchItem {
  absl::Span<const std::byte> input;
  absl::Span<std::byte> output;
  absl::Span<const SequenceView> sequences;  // pointers into input and output, region tensors, or device memory
  absl::Span<const HostTensor> tensors = {};
};

// One Extend call of a batch: what is done to pages before rows are appended, its bytes, and views. Layers, page
// numbers and tables are good as long as the call. Nothing in the batch writes what is moved to the host.
struct ExtendItem {
  absl::Span<const MemoryFill> fills;           // all of them first, of all items
  absl::Span<const MemoryCopy> copies;          // then these, from page to page of the device,
  absl::Span<const MemoryCopy> to_host = {};    // from the device's pages to the host's,
  absl::Span<const MemoryCopy> from_host = {};  // and back; in any order
  absl::Span<const std::byte> input;            // q, k, v
  absl::Span<std::byte> output;                 // o, LSE
  // Layers in the pages' region; their scales, and tables, in host memory; the rest as above.
  absl::Span<const PagedSequence> sequences;
};

// Durations of a batch's stages; zero where a device has no such stage.
struct StageTimes {
  absl::Duration copy_in;
  absl::Duration compute;
  absl::Duration copy_out;
};

struct BatchOutcome {
  // CANCELLED where the device stopped before the end because it was asked to; outputs and stats then mean nothing.
  absl::Status status;
  // True: the device is lost, the process must end (design §8). Otherwise an error concerns this batch alone.
  bool sticky = false;
  StageTimes times;
  ForwardStats stats;
};

// Thread-safe; each slot is used by one thread at a time.
class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceInfo info() const = 0;
  // Host memory that the device reads and writes fastest. The devices of one server share it.
  virtual StagingPool& staging() = 0;
  // Device memory in use, of info().memory_bytes.
  virtual int64_t memory_in_use() const = 0;
  // Device memory beside that, taken for launches and kept.
  virtual int64_t launch_memory() const { return 0; }
  // Memory of the host that is pinned for the device beside staging memory, taken for launches and kept.
  virtual int64_t pinned_launch_memory() const { return 0; }
  // Null where the device reads and writes host memory in place, and has none of its own.
  virtual RegionMapper* region_mapper() { return nullptr; }

  // Runs a batch on `slot` (0 to slots - 1) and returns when its outputs are where they belong.
  //
  // `stop` is requested, by another thread, once nobody wants any of the outputs any more. A device may then end the
  // batch where it is: the CPU's looks at every tile, a GPU's may look between launches. It may as well ignore it and
  // run to the end. Either way it returns only when it has let go of all memory of the batch, for good.
  virtual BatchOutcome Run(int slot, const AttentionParams& params, absl::Span<const BatchItem> items,
                           const std::stop_token& stop) = 0;

  // Memory for pages, all zero, that Extend works on: the device's own, for nobody else to touch. UNIMPLEMENTED where
  // the device keeps none, RESOURCE_EXHAUSTED where there is not so much.
  virtual absl::StatusOr<std::unique_ptr<StagingPool::Region>> TakePages(size_t bytes);
  // Memory of the host, all zero, that Extend copies pages to and from. UNIMPLEMENTED where it does not,
  // RESOURCE_EXHAUSTED where there is not so much.
  virtual absl::StatusOr<std::unique_ptr<StagingPool::Region>> TakeHostPages(size_t bytes);
  // As Run, for steps on resident sequences. A step that was done in part may be done again. REQUIRES: TakePages or
  // TakeHostPages gave what the items' layers, fills and copies point into.
  virtual BatchOutcome Extend(int slot, const PagedParams& params, absl::Span<const ExtendItem> items,
                              const std::stop_token& stop);
};

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_DEVICE_H_
