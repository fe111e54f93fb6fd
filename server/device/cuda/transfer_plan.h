// Which bytes of a batch travel to the device and back, and where they lie there.
//
// Nothing is packed: an item's bytes keep their order and distances, and the kernel reads them where they land. Items
// that are neighbours in staging memory travel as one piece, as do tensors of a region between which there is nothing.
// What lies on the device already stays where it is.
#ifndef TESSERA_SERVER_DEVICE_CUDA_TRANSFER_PLAN_H_
#define TESSERA_SERVER_DEVICE_CUDA_TRANSFER_PLAN_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "kernels/attention.h"
#include "server/device/device.h"

namespace tessera {

class TransferPlan {
 public:
  // A piece of host memory and its place in the device block.
  struct Piece {
    std::byte* host;
    size_t offset;
    size_t bytes;
    friend bool operator==(const Piece&, const Piece&) = default;
  };

  // REQUIRES: the items outlive the plan; their inputs and outputs are buffers of one staging pool, none given twice;
  // an item's output tensors overlap none of its others.
  explicit TransferPlan(absl::Span<const BatchItem> items);

  // In the order of their host addresses. Outputs come back to where they belong and touch nothing else: in a piece
  // there is nothing between two buffers but padding of the first, and nothing at all between two tensors.
  const std::vector<Piece>& inputs() const { return inputs_; }
  const std::vector<Piece>& outputs() const { return outputs_; }
  // Of device memory; 0 where nothing travels.
  size_t device_bytes() const { return device_bytes_; }

  // The batch's sequences as the kernel sees them, with the device block at `block`.
  std::vector<SequenceView> Views(std::byte* block) const;
  // `pointer` of one of the item's views, moved to where its bytes land. What lies in no host memory of the item's
  // stays.
  template <typename T>
  T* Moved(size_t item, T* pointer, std::byte* block) const {
    return static_cast<T*>(const_cast<void*>(MovedAddress(item, pointer, block)));
  }

 private:
  // Offsets in the device block; 0 of a buffer without bytes.
  struct Place {
    size_t input = 0;
    size_t output = 0;
    size_t first_tensor = 0;  // of the item's, in tensor_places_
  };

  const void* MovedAddress(size_t item, const void* address, std::byte* block) const;

  const absl::Span<const BatchItem> items_;
  std::vector<Place> places_;          // one an item
  std::vector<size_t> tensor_places_;  // offsets in the device block, of all items' tensors
  std::vector<Piece> inputs_;
  std::vector<Piece> outputs_;
  size_t device_bytes_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_CUDA_TRANSFER_PLAN_H_
