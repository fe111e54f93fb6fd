// What steps on resident sequences name in host memory beside their rows, and the kernel reads on the device: page
// tables, and the scales of fp8 pages.
#ifndef TESSERA_SERVER_DEVICE_CUDA_STEP_TABLES_H_
#define TESSERA_SERVER_DEVICE_CUDA_STEP_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/paged_attention.h"
#include "server/device/device.h"

namespace tessera {

// Laid out as one piece of memory. Of a table only the pages are taken that the step looks into; scales of neighbours
// that are of one layer are taken once. So are tables that begin at the same place, as those of a sequence's layers do,
// where all together would be more than kMostRepeatedBytes: so a batch takes no more than its sequences' tables.
class StepTables {
 public:
  static constexpr size_t kMostRepeatedBytes = size_t{1} << 20;

  // REQUIRES: the items' tables and scales outlive this.
  StepTables(const PagedParams& params, absl::Span<const ExtendItem> items);

  size_t bytes() const { return bytes_; }
  // REQUIRES: room for bytes().
  void WriteTo(std::byte* memory) const;

  // `sequence`, number i of all items', with tables and scales where they are once they have been copied to `memory`.
  PagedSequence View(size_t i, const PagedSequence& sequence, const std::byte* memory) const;

 private:
  // Of one sequence, in bytes from the beginning.
  struct Place {
    size_t pages_at;
    size_t page_count;
    size_t k_scales_at;
    size_t v_scales_at;
  };
  struct Piece {
    const void* from;
    size_t bytes;
    size_t at;
  };

  size_t Add(const void* from, size_t bytes);

  const bool scaled_;
  std::vector<Place> places_;
  std::vector<Piece> pieces_;
  size_t bytes_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_CUDA_STEP_TABLES_H_
